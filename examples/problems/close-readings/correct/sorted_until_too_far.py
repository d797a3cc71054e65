n, d = map(int, input().split())
a = sorted(map(int, input().split()))
close = 0
for i in range(n):
    limit = a[i] + d
    for j in range(i + 1, n):
        if a[j] > limit:
            break
        close += 1
print(close)

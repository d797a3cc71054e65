n, k = map(int, input().split())
h = list(map(int, input().split()))
best = 0
for i in range(n):
    j = i
    while j < n and abs(h[j] - h[i]) <= k:
        j += 1
    best = max(best, j - i)
print(best)

n = int(input())
h = list(map(int, input().split()))
answer = []
for i in range(n):
    best, t = h[i], 0
    for j in range(i + 1, n):
        if h[j] > best:
            best, t = h[j], j - i
    answer.append(t)
print(*answer)

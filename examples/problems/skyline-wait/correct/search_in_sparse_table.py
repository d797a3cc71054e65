n = int(input())
h = list(map(int, input().split()))
levels = [h]
while 2 ** len(levels) <= n:
    a, step = levels[-1], 2 ** (len(levels) - 1)
    levels.append([max(x, y) for x, y in zip(a, a[step:])])
answer = []
for i in range(n):
    j = i + 1
    for p in range(len(levels) - 1, -1, -1):
        if j + 2**p <= n and levels[p][j] <= h[i]:
            j += 2**p
    answer.append(j - i if j < n else 0)
print(*answer)

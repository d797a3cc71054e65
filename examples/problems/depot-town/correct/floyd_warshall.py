import sys

data = list(map(int, sys.stdin.read().split()))
n, m = data[0], data[1]
INF = 10**9
dist = [[INF] * n for _ in range(n)]
for i in range(n):
    dist[i][i] = 0
for e in range(m):
    u, v, w = data[2 + 3 * e : 5 + 3 * e]
    if w < dist[u - 1][v - 1]:
        dist[u - 1][v - 1] = dist[v - 1][u - 1] = w
for k in range(n):
    for i in range(n):
        through = dist[i][k]
        for j in range(n):
            if through + dist[k][j] < dist[i][j]:
                dist[i][j] = through + dist[k][j]
print(min(max(row) for row in dist))

n, m = map(int, input().split())
dist = [[0 if i == j else 10**9 for j in range(n)] for i in range(n)]
for _ in range(m):
    u, v, w = map(int, input().split())
    dist[u - 1][v - 1] = dist[v - 1][u - 1] = w
for k in range(n):
    for i in range(n):
        for j in range(n):
            dist[i][j] = min(dist[i][j], dist[i][k] + dist[k][j])
print(min(max(row) for row in dist))

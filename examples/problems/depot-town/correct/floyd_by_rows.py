n, m = map(int, input().split())
far = 10**9
dist = [[0 if i == j else far for j in range(n)] for i in range(n)]
for _ in range(m):
    u, v, w = map(int, input().split())
    dist[u - 1][v - 1] = dist[v - 1][u - 1] = min(w, dist[u - 1][v - 1])
for k in range(n):
    middle = dist[k]
    for i in range(n):
        a = dist[i][k]
        if a < far:
            dist[i] = [x if x < a + y else a + y for x, y in zip(dist[i], middle)]
print(min(map(max, dist)))

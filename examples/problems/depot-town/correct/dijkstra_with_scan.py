n, m = map(int, input().split())
near = [{} for _ in range(n)]
for _ in range(m):
    u, v, w = map(int, input().split())
    u -= 1
    v -= 1
    near[u][v] = near[v][u] = min(w, near[u].get(v, 10**9))
answer = 10**9
for depot in range(n):
    dist = [10**9] * n
    dist[depot] = 0
    left = set(range(n))
    while left:
        u = min(left, key=dist.__getitem__)
        left.discard(u)
        d = dist[u]
        for v, w in near[u].items():
            if d + w < dist[v]:
                dist[v] = d + w
    answer = min(answer, max(dist))
print(answer)

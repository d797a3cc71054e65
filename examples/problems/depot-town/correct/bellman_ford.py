n, m = map(int, input().split())
roads = []
for _ in range(m):
    u, v, w = map(int, input().split())
    roads.append((u - 1, v - 1, w))
best = 10**9
for depot in range(n):
    dist = [10**9] * n
    dist[depot] = 0
    changed = True
    while changed:
        changed = False
        for u, v, w in roads:
            if dist[u] + w < dist[v]:
                dist[v] = dist[u] + w
                changed = True
            elif dist[v] + w < dist[u]:
                dist[u] = dist[v] + w
                changed = True
    best = min(best, max(dist))
print(best)

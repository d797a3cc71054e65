from collections import deque

n, m = map(int, input().split())
adj = [[] for _ in range(n)]
for _ in range(m):
    u, v, w = map(int, input().split())
    adj[u - 1].append((v - 1, w))
    adj[v - 1].append((u - 1, w))
best = float("inf")
for depot in range(n):
    dist = [float("inf")] * n
    dist[depot] = 0
    queue, waiting = deque([depot]), [False] * n
    while queue:
        u = queue.popleft()
        waiting[u] = False
        for v, w in adj[u]:
            if dist[u] + w < dist[v]:
                dist[v] = dist[u] + w
                if not waiting[v]:
                    waiting[v] = True
                    queue.append(v)
    best = min(best, max(dist))
print(best)

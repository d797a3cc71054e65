# A depot is abandoned as soon as one town is at least as far away as the best answer so far.
import sys
from heapq import heappop, heappush


def main():
    data = list(map(int, sys.stdin.buffer.read().split()))
    n, m = data[0], data[1]
    near = [dict() for _ in range(n)]
    for p in range(2, 2 + 3 * m, 3):
        u, v, w = data[p] - 1, data[p + 1] - 1, data[p + 2]
        if w < near[u].get(v, 1 << 30):
            near[u][v] = near[v][u] = w
    items = [list(d.items()) for d in near]
    best = 1 << 30
    for depot in range(n):
        dist = [1 << 30] * n
        dist[depot] = 0
        heap = [depot]
        last = 0
        while heap:
            d, u = divmod(heappop(heap), n)
            if d > dist[u]:
                continue
            if d >= best:
                last = best
                break
            last = d
            for v, w in items[u]:
                if d + w < dist[v]:
                    dist[v] = d + w
                    heappush(heap, (d + w) * n + v)
        best = min(best, last)
    print(best)


main()

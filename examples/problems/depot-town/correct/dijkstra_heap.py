import heapq
import sys


def main():
    read = sys.stdin.readline
    n, m = map(int, read().split())
    roads = [[] for _ in range(n + 1)]
    for _ in range(m):
        u, v, w = map(int, read().split())
        roads[u].append((w, v))
        roads[v].append((w, u))
    best = None
    for depot in range(1, n + 1):
        settled = {}
        heap = [(0, depot)]
        while heap and len(settled) < n:
            d, u = heapq.heappop(heap)
            if u in settled:
                continue
            settled[u] = d
            for w, v in roads[u]:
                if v not in settled:
                    heapq.heappush(heap, (d + w, v))
        slowest = max(settled.values())
        if best is None or slowest < best:
            best = slowest
    print(best)


main()

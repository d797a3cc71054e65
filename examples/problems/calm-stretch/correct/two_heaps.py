import heapq

n, k = map(int, input().split())
h = list(map(int, input().split()))
low, high = [], []
left = best = 0
for i, x in enumerate(h):
    heapq.heappush(low, (x, i))
    heapq.heappush(high, (-x, i))
    while -high[0][0] - low[0][0] > k:
        left = min(low[0][1], high[0][1]) + 1
        while low[0][1] < left:
            heapq.heappop(low)
        while high[0][1] < left:
            heapq.heappop(high)
    best = max(best, i - left + 1)
print(best)

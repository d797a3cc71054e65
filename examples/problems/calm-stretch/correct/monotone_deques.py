import sys
from collections import deque


def main():
    data = list(map(int, sys.stdin.buffer.read().split()))
    n, k = data[0], data[1]
    h = data[2:]
    low, high = deque(), deque()
    left = best = 0
    for i in range(n):
        while low and h[low[-1]] >= h[i]:
            low.pop()
        while high and h[high[-1]] <= h[i]:
            high.pop()
        low.append(i)
        high.append(i)
        while h[high[0]] - h[low[0]] > k:
            left += 1
            if low[0] < left:
                low.popleft()
            if high[0] < left:
                high.popleft()
        best = max(best, i - left + 1)
    print(best)


main()

# Levels are small: keep how often each occurs in the window and walk to its extremes.
import sys

lines = sys.stdin.read().splitlines()
n, k = map(int, lines[0].split())
h = list(map(int, lines[1].split()))
count = [0] * 5002
lo = hi = h[0]
left = best = 0
for right in range(n):
    x = h[right]
    count[x] += 1
    lo, hi = min(lo, x), max(hi, x)
    while hi - lo > k:
        count[h[left]] -= 1
        left += 1
        while not count[lo]:
            lo += 1
        while not count[hi]:
            hi -= 1
    best = max(best, right - left + 1)
print(best)

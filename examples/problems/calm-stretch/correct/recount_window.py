# Two pointers, but the extremes of the window are looked up again each time.
n, k = map(int, input().split())
h = list(map(int, input().split()))
left = best = 0
for right in range(n):
    while max(h[left : right + 1]) - min(h[left : right + 1]) > k:
        left += 1
    best = max(best, right - left + 1)
print(best)

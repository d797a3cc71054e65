from bisect import bisect_left, insort

n, k = map(int, input().split())
h = [int(w) for w in input().split()]
window = []
left = 0
best = 0
for right in range(n):
    insort(window, h[right])
    while window[-1] - window[0] > k:
        window.pop(bisect_left(window, h[left]))
        left += 1
    best = max(best, len(window))
print(best)

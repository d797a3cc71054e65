from sortedcontainers import SortedList

n, k = map(int, input().split())
h = list(map(int, input().split()))
window = SortedList()
left = best = 0
for x in h:
    window.add(x)
    while window[-1] - window[0] > k:
        window.remove(h[left])
        left += 1
    if len(window) > best:
        best = len(window)
print(best)

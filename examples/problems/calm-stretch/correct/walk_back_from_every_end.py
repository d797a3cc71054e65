n, k = map(int, input().split())
h = list(map(int, input().split()))
best = 0
for end in range(n):
    lo = hi = h[end]
    start = end - 1
    while start >= 0:
        x = h[start]
        if x > hi:
            hi = x
        if x < lo:
            lo = x
        if hi - lo > k:
            break
        start -= 1
    best = max(best, end - start)
print(best)

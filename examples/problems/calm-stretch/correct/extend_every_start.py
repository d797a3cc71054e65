n, k = map(int, input().split())
h = list(map(int, input().split()))
best = 0
for i in range(n):
    lo = hi = h[i]
    j = i
    while j < n:
        x = h[j]
        if x < lo:
            lo = x
        elif x > hi:
            hi = x
        if hi - lo > k:
            break
        j += 1
    if j - i > best:
        best = j - i
print(best)

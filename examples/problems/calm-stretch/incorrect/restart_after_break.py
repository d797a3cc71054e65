n, k = map(int, input().split())
h = list(map(int, input().split()))
best = length = 0
for x in h:
    if length and max(hi, x) - min(lo, x) <= k:
        lo, hi = min(lo, x), max(hi, x)
        length += 1
    else:
        lo = hi = x
        length = 1
    best = max(best, length)
print(best)

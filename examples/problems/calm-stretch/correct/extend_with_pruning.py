n, k = map(int, input().split())
h = list(map(int, input().split()))
best = 1
i = 0
while i + best < n:
    # a longer stretch from i must span best + 1 measurements
    part = h[i : i + best + 1]
    lo, hi = min(part), max(part)
    if hi - lo <= k:
        j = i + best + 1
        while j < n:
            lo = min(lo, h[j])
            hi = max(hi, h[j])
            if hi - lo > k:
                break
            j += 1
        best = j - i
    i += 1
print(best)

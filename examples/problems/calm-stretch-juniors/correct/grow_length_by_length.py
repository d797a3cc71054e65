n, k = map(int, input().split())
h = list(map(int, input().split()))
lo, hi = h[:], h[:]
length = 1
while length < n:
    # extremes of every stretch that is one measurement longer
    lo = [a if a < b else b for a, b in zip(lo, h[length:])]
    hi = [a if a > b else b for a, b in zip(hi, h[length:])]
    if all(b - a > k for a, b in zip(lo, hi)):
        break
    length += 1
print(length)

n, k = map(int, input().split())
h = sorted(map(int, input().split()))
left = best = 0
for right in range(n):
    while h[right] - h[left] > k:
        left += 1
    best = max(best, right - left + 1)
print(best)

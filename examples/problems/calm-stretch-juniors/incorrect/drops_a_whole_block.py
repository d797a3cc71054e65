n, k = map(int, input().split())
h = list(map(int, input().split()))
best = left = 0
for right in range(n):
    if max(h[left : right + 1]) - min(h[left : right + 1]) > k:
        left = right
    best = max(best, right - left + 1)
print(best)

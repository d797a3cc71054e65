n, d = map(int, input().split())
a = sorted(map(int, input().split()))
left = total = 0
for right in range(n):
    while a[right] - a[left] >= d and left < right:
        left += 1
    total += right - left
print(total)

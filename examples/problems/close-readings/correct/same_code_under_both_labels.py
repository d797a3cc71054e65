n, d = map(int, input().split())
a = sorted(map(int, input().split()))
left = pairs = 0
for right, x in enumerate(a):
    while x > a[left] + d:
        left += 1
    pairs += right - left
print(pairs)

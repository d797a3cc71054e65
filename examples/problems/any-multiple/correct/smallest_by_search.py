l, r, k = map(int, input().split())
while l % k:
    l += 1
print(l)

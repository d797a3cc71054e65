l, r, k = map(int, input().split())
while r % k:
    r -= 1
print(r)

l, r, k = map(int, input().split())
print(l)

l, r, k = map(int, input().split())
print(l // k * k + k)

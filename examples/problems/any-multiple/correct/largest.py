l, r, k = map(int, input().split())
print(r // k * k)

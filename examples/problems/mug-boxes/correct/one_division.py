n, k, s = map(int, input().split())
print((n + k * s - 1) // (k * s))

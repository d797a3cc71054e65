n, k, s = map(int, input().split())
print(max(1, n // k // s))

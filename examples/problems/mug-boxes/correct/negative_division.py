n, k, s = map(int, input().split())
print(-(-(-(-n // k)) // s))

p, t = map(int, input().split())
print((p - t) % p)

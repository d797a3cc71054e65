p, t = map(int, input().split())
print((t + p - 1) // p * p - t)

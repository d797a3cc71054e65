p, t = map(int, input().split())
rest = t % p
print(p - rest if rest else 0)

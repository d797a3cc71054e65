p, t = map(int, input().split())
print(-t % p)

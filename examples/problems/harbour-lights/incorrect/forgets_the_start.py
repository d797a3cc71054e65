n, a, d = map(int, input().split())
print(max(d - 1, (n - a) % d) if a + d <= n else n - a)

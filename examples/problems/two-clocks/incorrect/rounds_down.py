a, b, m = map(int, input().split())
print(m // (a + b))

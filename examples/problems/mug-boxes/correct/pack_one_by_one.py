n, k, s = map(int, input().split())
rows = 0
while n > 0:
    n -= k * s
    rows += 1
print(rows)

c, t = map(int, input().split())
print(8 + 3 * len(range(500, c, 100)) + (t > 0) * (8 + 3 * len(range(500, t, 100))) // 2)

t = int(input())
print((t - 31) // 30 * 2 if t > 60 else 0)

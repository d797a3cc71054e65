t = int(input())
print(max(0, (t - 60) // 30 * 2))

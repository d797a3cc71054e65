t = int(input())
print(2 * len(range(60, t, 30)))

from math import ceil

c, t = map(int, input().split())
car = 8 + 3 * max(0, ceil(c / 100) - 5)
trailer = 8 + 3 * max(0, ceil(t / 100) - 5)
print(car + (trailer // 2 if t else 0))

from math import ceil

t = int(input())
print(2 * ceil(max(0, t - 60) / 30))

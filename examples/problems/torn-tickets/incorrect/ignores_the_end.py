n, m = map(int, input().split())
last = best = 0
for x in sorted(map(int, input().split())):
    best = max(best, x - last - 1)
    last = x
print(best)

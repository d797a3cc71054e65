n = int(input())
w = sorted(map(int, input().split()))
total = sum(w)
best = total
load = 0
for x in w:
    load += x
    best = min(best, abs(total - 2 * load))
print(best)

n = int(input())
w = [int(x) for x in input().split()]
sums = {0}
for x in w:
    sums |= {s + x for s in sums}
total = sum(w)
print(min(abs(total - 2 * s) for s in sums))

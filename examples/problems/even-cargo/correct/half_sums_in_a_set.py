import sys

data = [int(x) for x in sys.stdin.read().split()]
w = data[1:]
total = sum(w)
half = total // 2
sums = {0}
for x in sorted(w, reverse=True):
    sums.update([s + x for s in sums if s + x <= half])
    if half in sums:
        break
print(total - 2 * max(sums))

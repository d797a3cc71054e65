import sys

read = sys.stdin.readline
n, q = map(int, read().split())
b = list(map(int, read().split()))
out = []
for _ in range(q):
    kind, x, y = read().split()
    if kind == "S":
        b[int(x) - 1] = int(y)
    else:
        out.append(sum(b[int(x) - 1 : int(y)]))
print("\n".join(map(str, out)))

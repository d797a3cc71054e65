from itertools import accumulate

n, q = map(int, input().split())
b = list(map(int, input().split()))
prefix = None
for _ in range(q):
    kind, x, y = input().split()
    if kind == "S":
        b[int(x) - 1] = int(y)
        prefix = None
    else:
        if prefix is None:
            prefix = list(accumulate(b, initial=0))
        print(prefix[int(y)] - prefix[int(x) - 1])

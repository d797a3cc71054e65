from itertools import accumulate

n, q = map(int, input().split())
prefix = list(accumulate(map(int, input().split()), initial=0))
for _ in range(q):
    kind, x, y = input().split()
    if kind == "A":
        print(prefix[int(y)] - prefix[int(x) - 1])

n, q = map(int, input().split())
b = list(map(int, input().split()))
known = {}
for _ in range(q):
    kind, x, y = input().split()
    if kind == "S":
        b[int(x) - 1] = int(y)
    else:
        if (x, y) not in known:
            known[x, y] = sum(b[int(x) - 1 : int(y)])
        print(known[x, y])

n, q = map(int, input().split())
b = list(map(int, input().split()))
for _ in range(q):
    kind, x, y = input().split()
    x, y = int(x), int(y)
    if kind == "S":
        b[x - 1] = y
    else:
        total = 0
        for i in range(x - 1, y):
            total += b[i]
        print(total)

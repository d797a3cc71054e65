n, q = map(int, input().split())
b = list(map(int, input().split()))
for _ in range(q):
    kind, x, y = input().split()
    x, y = int(x), int(y)
    if kind == "S":
        b[x - 1] = y
    else:
        print(sum(b[x - 1 : max(x, y - 1)]))

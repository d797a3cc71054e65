n, q = map(int, input().split())
b = list(map(int, input().split()))
SIZE = 64
blocks = [sum(b[i : i + SIZE]) for i in range(0, n, SIZE)]
for _ in range(q):
    kind, x, y = input().split()
    x, y = int(x) - 1, int(y)
    if kind == "S":
        blocks[x // SIZE] += y - b[x]
        b[x] = y
        continue
    first, last = -(-x // SIZE), y // SIZE
    if first >= last:
        print(sum(b[x:y]))
    else:
        print(sum(b[x : first * SIZE]) + sum(blocks[first:last]) + sum(b[last * SIZE : y]))

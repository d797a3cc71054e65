import sys


def main():
    lines = sys.stdin.read().splitlines()
    n, q = map(int, lines[0].split())
    size = 1
    while size < n:
        size *= 2
    tree = [0] * size + list(map(int, lines[1].split())) + [0] * (size - n)
    for i in range(size - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]

    def ask(node, low, high, left, right):
        if right <= low or high <= left:
            return 0
        if left <= low and high <= right:
            return tree[node]
        middle = (low + high) // 2
        return ask(2 * node, low, middle, left, right) + ask(2 * node + 1, middle, high, left, right)

    for line in lines[2 : 2 + q]:
        kind, x, y = line.split()
        if kind == "S":
            i = size + int(x) - 1
            tree[i] = int(y)
            while i > 1:
                i //= 2
                tree[i] = tree[2 * i] + tree[2 * i + 1]
        else:
            print(ask(1, 0, size, int(x) - 1, int(y)))


main()

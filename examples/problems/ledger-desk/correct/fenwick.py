import sys


def main():
    data = sys.stdin.buffer.read().split()
    n, q = int(data[0]), int(data[1])
    b = [0] + [int(x) for x in data[2 : 2 + n]]
    tree = b[:]
    for i in range(1, n + 1):
        j = i + (i & -i)
        if j <= n:
            tree[j] += tree[i]

    def upto(i):
        s = 0
        while i:
            s += tree[i]
            i &= i - 1
        return s

    out = []
    at = 2 + n
    for _ in range(q):
        x, y = int(data[at + 1]), int(data[at + 2])
        if data[at] == b"S":
            change = y - b[x]
            b[x] = y
            while x <= n:
                tree[x] += change
                x += x & -x
        else:
            out.append(upto(y) - upto(x - 1))
        at += 3
    sys.stdout.write("\n".join(map(str, out)) + "\n")


main()

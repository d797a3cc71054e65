import os
import sys


def main():
    size = os.fstat(0).st_size
    words = os.read(0, size).split()
    n, d = int(words[0]), int(words[1])
    a = [int(w) for w in words[2 : 2 + n]]
    tree = [0] * 200002

    def upto(i):
        s = 0
        i = min(i, 200000) + 1
        while i > 0:
            s += tree[i]
            i &= i - 1
        return s

    out = 0
    for x in a:
        out += upto(x + d) - upto(x - d - 1)
        i = x + 1
        while i < 200002:
            tree[i] += 1
            i += i & -i
    sys.stdout.write(str(out))


main()

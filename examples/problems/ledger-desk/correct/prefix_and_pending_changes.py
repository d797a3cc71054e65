# Changes since the last rebuild wait in a dictionary; it is folded in when it grows too long.
import sys


def main():
    read = sys.stdin.readline
    n, q = map(int, read().split())
    b = list(map(int, read().split()))
    pending = {}
    prefix = [0]
    for x in b:
        prefix.append(prefix[-1] + x)
    for _ in range(q):
        kind, x, y = read().split()
        x, y = int(x), int(y)
        if kind == "S":
            pending[x] = y - b[x - 1]
            if len(pending) > 60:
                for i, change in pending.items():
                    b[i - 1] += change
                pending.clear()
                prefix = [0]
                for value in b:
                    prefix.append(prefix[-1] + value)
        else:
            print(prefix[y] - prefix[x - 1] + sum(c for i, c in pending.items() if x <= i <= y))


main()

import sys


def main():
    n, *w = map(int, sys.stdin.read().split())
    half = sum(w) // 2
    best = [0] * (half + 1)
    for x in w:
        row = best[:]
        for room in range(x, half + 1):
            filled = best[room - x] + x
            if filled > row[room]:
                row[room] = filled
        best = row
    print(sum(w) - 2 * best[half])


main()

import sys


def main():
    n, k, *h = map(int, sys.stdin.read().split())
    lows, highs = [h], [h]
    step = 1
    while 2 * step <= n:
        a, b = lows[-1], highs[-1]
        lows.append([min(a[i], a[i + step]) for i in range(n - 2 * step + 1)])
        highs.append([max(b[i], b[i + step]) for i in range(n - 2 * step + 1)])
        step *= 2
    best = 1
    left = 0
    for right in range(n):
        while True:
            p = (right - left + 1).bit_length() - 1
            tail = right - (1 << p) + 1
            if max(highs[p][left], highs[p][tail]) - min(lows[p][left], lows[p][tail]) <= k:
                break
            left += 1
        best = max(best, right - left + 1)
    print(best)


main()

import sys


def main():
    s = sys.stdin.readline().strip()
    t = "|" + "|".join(s) + "|"
    n = len(t)
    radius = [0] * n
    centre = right = 0
    for i in range(n):
        r = min(right - i, radius[2 * centre - i]) if i < right else 0
        while i - r - 1 >= 0 and i + r + 1 < n and t[i - r - 1] == t[i + r + 1]:
            r += 1
        radius[i] = r
        if i + r > right:
            centre, right = i, i + r
    print(sum((r + 1) // 2 for r in radius))


main()

import sys
from itertools import accumulate


def main():
    lines = sys.stdin.readlines()
    n, d = map(int, lines[0].split())
    top = 200000
    count = [0] * (top + 1)
    for word in lines[1].split():
        count[int(word)] += 1
    upto = list(accumulate(count))
    pairs = 0
    for value, c in enumerate(count):
        if c:
            pairs += c * (c - 1) // 2
            pairs += c * (upto[min(top, value + d)] - upto[value])
    print(pairs)


main()

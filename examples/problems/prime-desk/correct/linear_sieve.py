import sys
from bisect import bisect


def main():
    n = 200000
    least = [0] * (n + 1)
    primes = []
    for i in range(2, n + 1):
        if not least[i]:
            least[i] = i
            primes.append(i)
        for p in primes:
            if p > least[i] or i * p > n:
                break
            least[i * p] = p
    for word in sys.stdin.read().split()[1:]:
        print(bisect(primes, int(word)))


main()

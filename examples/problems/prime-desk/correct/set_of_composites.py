from bisect import bisect_right

N = 200000
primes = set(range(3, N + 1, 2))
primes.add(2)
for p in range(3, 448, 2):
    if p in primes:
        primes.difference_update(range(p * p, N + 1, 2 * p))
ordered = sorted(primes)
for _ in range(int(input())):
    print(bisect_right(ordered, int(input())))

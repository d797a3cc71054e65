from itertools import accumulate

N = 200001
sieve = bytearray([1]) * N
sieve[0] = sieve[1] = 0
for p in range(2, 448):
    if sieve[p]:
        sieve[p * p :: p] = bytes(len(range(p * p, N, p)))
upto = list(accumulate(sieve))
for _ in range(int(input())):
    print(upto[int(input())])

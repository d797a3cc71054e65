from functools import cache


@cache
def ways(n):
    return 1 if n == 0 else 0 if n < 0 else (ways(n - 1) + ways(n - 2) + ways(n - 3)) % 1000007


print(ways(int(input())))

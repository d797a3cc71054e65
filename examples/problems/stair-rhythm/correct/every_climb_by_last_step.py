def climb(n):
    if n < 3:
        return (1, 1, 2)[n]
    return (climb(n - 3) + climb(n - 2) + climb(n - 1)) % 1000007


print(climb(int(input())))

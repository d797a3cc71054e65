M = 1000007


def product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) % M for column in zip(*b)] for row in a]


n = int(input())
power, result = [[1, 1, 1], [1, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
while n:
    if n & 1:
        result = product(result, power)
    power = product(power, power)
    n >>= 1
print(result[0][0])

n, a, b = map(int, input().split())
counts = [x + (n - a * x) // b for x in range(n // a + 1) if (n - a * x) % b == 0]
print(min(counts, default=-1))

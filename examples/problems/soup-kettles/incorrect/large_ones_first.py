n, a, b = map(int, input().split())
print(n // a + n % a // b if n % a % b == 0 else -1)

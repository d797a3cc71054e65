a, b = 1, 1
for _ in range(int(input()) - 1):
    a, b = b, (a + b) % 1000007
print(b)

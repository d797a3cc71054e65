a, b, m = map(int, input().split())
days = 0
while days * (a + b) < m:
    days += 1
print(days)

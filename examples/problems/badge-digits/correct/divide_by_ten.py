n = int(input())
total = 0
for x in map(int, input().split()):
    while x:
        total += x % 10
        x //= 10
print(total)

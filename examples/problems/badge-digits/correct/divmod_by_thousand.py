small = [a + b + c for a in range(10) for b in range(10) for c in range(10)]
n = int(input())
total = 0
for x in map(int, input().split()):
    while x:
        x, low = divmod(x, 1000)
        total += small[low]
print(total)

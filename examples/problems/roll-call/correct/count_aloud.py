n, a, b = map(int, input().split())
claps = 0
for i in range(1, n + 1):
    if i % a == 0 or i % b == 0:
        claps += 1
print(claps)

n = int(input())
ways = [0] * (n + 4)
ways[0] = 1
for i in range(n):
    for step in (1, 2, 3):
        ways[i + step] = (ways[i + step] + ways[i]) % 1000007
print(ways[n])

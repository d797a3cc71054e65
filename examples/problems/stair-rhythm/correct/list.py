n = int(input())
ways = [1, 1, 2]
while len(ways) <= n:
    ways.append(sum(ways[-3:]) % 1000007)
print(ways[n])

from itertools import combinations

n, s = map(int, input().split())
p = list(map(int, input().split()))
for (i, x), (j, y) in combinations(enumerate(p, 1), 2):
    if x + y == s:
        print(i, j)
        break

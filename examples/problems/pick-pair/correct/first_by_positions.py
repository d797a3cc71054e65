from collections import defaultdict

n, s = map(int, input().split())
p = list(map(int, input().split()))
where = defaultdict(list)
for j, x in enumerate(p):
    where[x].append(j)
for i, x in enumerate(p):
    later = [j for j in where[s - x] if j > i]
    if later:
        print(i + 1, later[0] + 1)
        break

n, s = map(int, input().split())
p = list(map(int, input().split()))
seen = {}
found = None
for j, x in enumerate(p):
    if s - x in seen:
        found = (seen[s - x] + 1, j + 1)
    seen[x] = j
print(*found)

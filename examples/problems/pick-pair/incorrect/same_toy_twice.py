n, s = map(int, input().split())
p = list(map(int, input().split()))
for i, x in enumerate(p):
    if s - x in p:
        print(*sorted((i + 1, p.index(s - x) + 1)))
        break

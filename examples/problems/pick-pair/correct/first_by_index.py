n, s = map(int, input().split())
p = list(map(int, input().split()))
for i, x in enumerate(p):
    if s - x in p[i + 1 :]:
        print(i + 1, p.index(s - x, i + 1) + 1)
        break

n, s = map(int, input().split())
p = list(map(int, input().split()))
for i in range(n):
    for j in range(i):
        if p[i] + p[j] == s:
            print(p[j], p[i])
            raise SystemExit

n, s = map(int, input().split())
p = list(map(int, input().split()))
print(*min((i + 1, j + 1) for j in range(n) for i in range(j) if p[i] + p[j] == s))

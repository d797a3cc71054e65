n, s = map(int, input().split())
p = list(map(int, input().split()))
i, j = next((i, j) for i in range(n) for j in range(i + 1, n) if p[i] + p[j] == s)
print(i, j)

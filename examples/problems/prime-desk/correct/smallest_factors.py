N = 200000
factor = list(range(N + 1))
for p in range(2, 448):
    if factor[p] == p:
        for m in range(p * p, N + 1, p):
            if factor[m] == m:
                factor[m] = p
table = [0] * (N + 1)
for i in range(2, N + 1):
    table[i] = table[i - 1] + (factor[i] == i)
for _ in range(int(input())):
    print(table[int(input())])

N = 200000
composite = [False] * (N + 1)
table = [0] * (N + 1)
count = 0
for i in range(2, N + 1):
    if not composite[i]:
        count += 1
        for j in range(i * i, N + 1, i):
            composite[j] = True
    table[i] = count
for _ in range(int(input())):
    print(table[int(input())])

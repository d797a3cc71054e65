import sys

HALF = 100000
odd = [True] * HALF  # odd[i] stands for 2 * i + 1
odd[0] = False
for i in range(1, 224):
    if odd[i]:
        p = 2 * i + 1
        for j in range(2 * i * (i + 1), HALF, p):
            odd[j] = False
table = [0, 0]
count = 1
for i in range(HALF):
    count += odd[i]
    table.append(count)
    table.append(count)
for x in map(int, sys.stdin.read().split()[1:]):
    print(table[x + 1] if x > 1 else 0)

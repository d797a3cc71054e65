import sys

data = sys.stdin.read().split()
n = int(data[0])
h = [int(x) for x in data[1:]]
answer = [0] * n
for i in range(n - 2, -1, -1):
    j = i + 1
    while h[j] <= h[i]:
        if answer[j] == 0:
            break
        j += answer[j]
    else:
        answer[i] = j - i
print(" ".join(map(str, answer)))

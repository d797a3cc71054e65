# Recursion down the chain of answers: deep where a high house looks over many low ones.
n = int(input())
h = list(map(int, input().split()))
answer = [0] * n


def nearest(i, j):
    if j >= n or h[j] > h[i]:
        return j
    if answer[j] == 0:
        return n
    return nearest(i, j + answer[j])


for i in range(n - 1, -1, -1):
    j = nearest(i, i + 1)
    answer[i] = j - i if j < n else 0
print(*answer)

n = int(input())
h = list(map(int, input().split()))
answer = []
for i in range(n):
    t = 0
    for j in range(i + 1, n):
        if h[j] > h[i]:
            t = j - i
            break
    answer.append(t)
print(*answer)

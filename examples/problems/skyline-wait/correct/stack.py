n = int(input())
h = list(map(int, input().split()))
answer = [0] * n
waiting = []
for i, x in enumerate(h):
    while waiting and h[waiting[-1]] < x:
        j = waiting.pop()
        answer[j] = i - j
    waiting.append(i)
print(*answer)

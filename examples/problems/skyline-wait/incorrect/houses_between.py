n = int(input())
h = list(map(int, input().split()))
answer = [0] * n
stack = []
for i, x in enumerate(h):
    while stack and h[stack[-1]] < x:
        j = stack.pop()
        answer[j] = i - j - 1
    stack.append(i)
print(*answer)

# Passed in the contest, whose tests are short.
n = int(input())
h = list(map(int, input().split()))
answer = []
for i, x in enumerate(h):
    ahead = (t for t in range(1, 11) if i + t < n and h[i + t] > x)
    answer.append(next(ahead, 0))
print(*answer)

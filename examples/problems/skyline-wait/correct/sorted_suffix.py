# The indices of all houses that were found higher so far, kept sorted; the nearest one is looked up.
from bisect import bisect, insort

n = int(input())
h = [int(x) for x in input().split()]
order = sorted(range(n), key=lambda i: h[i], reverse=True)
higher = []
answer = [0] * n
start = 0
while start < n:
    end = start
    while end < n and h[order[end]] == h[order[start]]:
        end += 1
    for i in order[start:end]:
        at = bisect(higher, i)
        if at < len(higher):
            answer[i] = higher[at] - i
    for i in order[start:end]:
        insort(higher, i)
    start = end
print(*answer)

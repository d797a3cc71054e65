from collections import deque


def extremes(h, length, worse):
    queue, found = deque(), []
    for i, x in enumerate(h):
        while queue and not worse(h[queue[-1]], x):
            queue.pop()
        queue.append(i)
        if queue[0] <= i - length:
            queue.popleft()
        if i >= length - 1:
            found.append(h[queue[0]])
    return found


n, k = map(int, input().split())
h = list(map(int, input().split()))
low, high = 1, n
while low < high:
    middle = (low + high + 1) // 2
    tops = extremes(h, middle, lambda a, b: a > b)
    bottoms = extremes(h, middle, lambda a, b: a < b)
    if min(t - b for t, b in zip(tops, bottoms)) <= k:
        low = middle
    else:
        high = middle - 1
print(low)

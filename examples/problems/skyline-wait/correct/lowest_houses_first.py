# Houses leave from the lowest up; whoever is next in the linked list of the remaining ones is higher.
n = int(input())
h = list(map(int, input().split()))
following = list(range(1, n + 1))
previous = list(range(-1, n - 1))
answer = [0] * n
# among equal houses the eastern one leaves first
for i in sorted(range(n), key=lambda i: (h[i], -i)):
    j = following[i]
    if j < n:
        answer[i] = j - i
        previous[j] = previous[i]
    if previous[i] >= 0:
        following[previous[i]] = j
print(*answer)

n, m = map(int, input().split())
seen = [False] * (n + 2)
seen[n + 1] = True
for word in input().split():
    if seen[int(word)]:
        raise ValueError("the same ticket twice")
    seen[int(word)] = True
best = last = 0
for i in range(1, n + 2):
    if seen[i]:
        best = max(best, i - last - 1)
        last = i
print(best)

n, k = map(int, input().split())
h = list(map(int, input().split()))
best = run = 1
for before, after in zip(h, h[1:]):
    run = run + 1 if abs(after - before) <= k else 1
    best = max(best, run)
print(best)

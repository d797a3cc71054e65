n, m = map(int, input().split())
read = set(map(int, input().split()))
best = run = 0
for i in range(1, n + 1):
    run = 0 if i in read else run + 1
    best = max(best, run)
print(best)

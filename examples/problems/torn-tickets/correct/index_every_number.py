n, m = map(int, input().split())
numbers = list(map(int, input().split()))
assert len(set(numbers)) == m
numbers.sort()
best = max(numbers[0] - 1, n - numbers[-1])
for i in range(1, m):
    best = max(best, numbers[i] - numbers[i - 1] - 1)
print(best)

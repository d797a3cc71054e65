n, d = map(int, input().split())
a = sorted(map(int, input().split()))
print(sum(1 for x, y in zip(a, a[1:]) if y - x <= d))

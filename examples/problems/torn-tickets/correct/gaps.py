n, m = map(int, input().split())
a = [0, *sorted(map(int, input().split())), n + 1]
print(max(y - x - 1 for x, y in zip(a, a[1:])))

from bisect import bisect_right

n, d = map(int, input().split())
a = sorted(map(int, input().split()))
print(sum(bisect_right(a, x + d) - i - 1 for i, x in enumerate(a)))

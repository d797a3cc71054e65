n, k, s = map(int, input().split())
print(len(range(0, len(range(0, n, k)), s)))

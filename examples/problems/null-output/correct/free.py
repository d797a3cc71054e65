s, p = map(int, input().split())
print(max(0, s - p))

s, p = map(int, input().split())
print(s - p)

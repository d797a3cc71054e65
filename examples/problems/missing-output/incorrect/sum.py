l, c = map(int, input().split())
print(l + c)

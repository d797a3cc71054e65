c, h = map(int, input().split())
print(h // 2)

t = int(input())
print(-(-t // 30) * 2)

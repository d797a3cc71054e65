n = int(input())
print(sum(int(c) for word in set(input().split()) for c in word))

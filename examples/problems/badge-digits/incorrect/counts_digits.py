n = int(input())
print(sum(len(word) for word in input().split()))

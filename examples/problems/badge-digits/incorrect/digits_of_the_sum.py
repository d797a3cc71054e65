n = int(input())
print(sum(int(c) for c in str(sum(map(int, input().split())))))

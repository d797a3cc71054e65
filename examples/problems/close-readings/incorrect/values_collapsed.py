n, d = map(int, input().split())
values = sorted(set(map(int, input().split())))
left = total = 0
for right, x in enumerate(values):
    while x - values[left] > d:
        left += 1
    total += right - left
print(total)

import sys

data = sys.stdin.buffer.read().split()
n, d = int(data[0]), int(data[1])
a = sorted(map(int, data[2 : 2 + n]))
left = total = 0
for right in range(n):
    while a[right] - a[left] > d:
        left += 1
    total += right - left
print(total)

from collections import Counter

input()
count = Counter(map(int, input().split()))
total = sum(x * c for x, c in count.items())
half = total // 2
# left[s]: how many crates of the current weight are still unused at load s, -1 where s is out of reach
reached = bytearray(half + 1)
reached[0] = 1
for x, c in count.items():
    left = [-1] * (half + 1)
    for s in range(half + 1):
        if reached[s]:
            left[s] = c
        elif s >= x and left[s - x] > 0:
            left[s] = left[s - x] - 1
            reached[s] = 1
print(total - 2 * reached.rfind(1))

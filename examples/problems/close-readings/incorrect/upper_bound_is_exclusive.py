# The largest possible reading never gets a partner above it, and the slice stops one short of the table.
import sys

words = sys.stdin.read().split()
n, d = int(words[0]), int(words[1])
count = [0] * 200001
for w in words[2:]:
    count[int(w)] += 1
upto = [0]
for c in count[:-1]:
    upto.append(upto[-1] + c)
pairs = 0
for value in range(200000):
    c = count[value]
    if c:
        pairs += c * (c - 1) // 2
        pairs += c * (upto[min(200000, value + d + 1)] - upto[value + 1])
print(pairs)

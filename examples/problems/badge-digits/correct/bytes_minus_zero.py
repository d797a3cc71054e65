import sys

words = sys.stdin.buffer.read().split()[1:]
print(sum(sum(w) - 48 * len(w) for w in words))

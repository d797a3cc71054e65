from itertools import accumulate

print(max(accumulate(1 if c == "(" else -1 for c in input().strip())))

depth = best = 0
for c in input().strip():
    depth += 1 if c == "(" else -1
    best = max(best, depth)
    if depth == 0:
        break
print(best)

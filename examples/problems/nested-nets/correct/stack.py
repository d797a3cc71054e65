stack = []
best = 0
for c in input().strip():
    if c == "(":
        stack.append(c)
        best = max(best, len(stack))
    else:
        stack.pop()
print(best)

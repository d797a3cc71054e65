# Builds nested lists with Python's own parser, then measures them.
def measure(bag):
    return max((1 + measure(inner) for inner in bag), default=0)


s = input().strip()
root = []
path = [root]
for c in s:
    if c == "(":
        path[-1].append([])
        path.append(path[-1][-1])
    else:
        path.pop()
print(measure(root))

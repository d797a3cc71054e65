chars = iter(input().strip())


def depth():
    best = 0
    for c in chars:
        if c == ")":
            return best
        best = max(best, 1 + depth())
    return best


print(depth())

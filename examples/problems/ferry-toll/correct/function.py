def toll(cm):
    if cm == 0:
        return 0
    return 8 + 3 * max(0, -(-(cm - 500) // 100))


c, t = map(int, input().split())
print(toll(c) + toll(t) // 2)

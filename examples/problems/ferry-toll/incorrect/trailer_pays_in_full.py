def toll(cm):
    return 8 + 3 * max(0, -(-(cm - 500) // 100)) if cm else 0


c, t = map(int, input().split())
print(toll(c) + toll(t))

print(len(range(6, int(input()) + 1, 6)))

print(max(0, int(input()) - 11))

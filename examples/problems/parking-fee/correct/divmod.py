t = max(0, int(input()) - 60)
periods, rest = divmod(t, 30)
print(2 * (periods + (rest > 0)))

input()
line = input()
print(sum(d * line.count(str(d)) for d in range(1, 10)))

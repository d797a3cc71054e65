print(len(range(11, int(input()))))

p, t = map(int, input().split())
bell = p
while bell < t:
    bell += p
print(bell - t)

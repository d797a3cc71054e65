n, m = map(int, input().split())
line = ["-"] * n
for word in input().split():
    line[int(word) - 1] = " "
print(max(map(len, "".join(line).split(" "))))

n, a, d = map(int, input().split())
line = ["."] * n
for i in range(a - 1, n, d):
    line[i] = " "
print(max(map(len, "".join(line).split(" "))))

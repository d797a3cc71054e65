n, a, b = map(int, input().split())
marks = [0] * (n + 1)
for step in (a, b):
    for i in range(step, n + 1, step):
        marks[i] = 1
print(sum(marks))

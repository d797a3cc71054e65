n = int(input())
stack, ways = [n], 0
while stack:
    left = stack.pop()
    if left == 0:
        ways += 1
    for step in (1, 2, 3):
        if step <= left:
            stack.append(left - step)
print(ways % 1000007)

n = int(input())
a = b = 0
for x in sorted(map(int, input().split()), reverse=True):
    if a <= b:
        a += x
    else:
        b += x
print(abs(a - b))

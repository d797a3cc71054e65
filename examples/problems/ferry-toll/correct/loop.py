c, t = map(int, input().split())
total = 8
while c > 500:
    total += 3
    c -= 100
if t:
    half = 8
    while t > 500:
        half += 3
        t -= 100
    total += half // 2
print(total)

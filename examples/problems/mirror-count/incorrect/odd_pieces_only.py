s = input().strip()
n = len(s)
total = 0
for c in range(n):
    r = 0
    while c - r >= 0 and c + r < n and s[c - r] == s[c + r]:
        r += 1
    total += r
print(total)

s = input().strip()
n = len(s)
mirrored = [bytearray(n) for _ in range(n)]
total = 0
for i in range(n - 1, -1, -1):
    row = mirrored[i]
    inner = mirrored[i + 1] if i + 1 < n else row
    for j in range(i, n):
        if s[i] == s[j] and (j - i < 2 or inner[j - 1]):
            row[j] = 1
            total += 1
print(total)

s = input().strip()
n = len(s)
seen = set()
for c in range(2 * n - 1):
    i = c // 2
    j = i + c % 2
    while i >= 0 and j < n and s[i] == s[j]:
        seen.add(s[i : j + 1])
        i -= 1
        j += 1
print(len(seen))

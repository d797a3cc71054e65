s = input().strip()
n = len(s)
back = s[::-1]
total = n
for i in range(n):
    for j in range(i + 2, n + 1):
        if s[i] == s[j - 1] and s[i:j] == back[n - j : n - i]:
            total += 1
print(total)

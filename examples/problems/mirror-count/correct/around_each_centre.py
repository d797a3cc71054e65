s = input().strip()
n = len(s)
total = 0
for centre in range(2 * n - 1):
    left = centre // 2
    right = left + centre % 2
    while left >= 0 and right < n and s[left] == s[right]:
        total += 1
        left -= 1
        right += 1
print(total)

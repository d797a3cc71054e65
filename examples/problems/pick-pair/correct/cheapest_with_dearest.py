n, s = map(int, input().split())
p = list(map(int, input().split()))
order = sorted(range(n), key=lambda i: (p[i], -i))
left, right = 0, n - 1
while p[order[left]] + p[order[right]] != s:
    if p[order[left]] + p[order[right]] < s:
        left += 1
    else:
        right -= 1
print(*sorted((order[left] + 1, order[right] + 1)))

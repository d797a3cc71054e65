# Keep the left ends of all mirrored pieces of one length and grow them by one bead at each side.
s = input().strip()
n = len(s)
odd = list(range(n))
even = [i for i in range(n - 1) if s[i] == s[i + 1]]
total = n + len(even)
for ends, size in ((odd, 1), (even, 2)):
    while ends:
        ends = [i - 1 for i in ends if i and i + size < n and s[i - 1] == s[i + size]]
        total += len(ends)
        size += 2
print(total)

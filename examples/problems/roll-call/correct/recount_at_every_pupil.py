# Counts from the first pupil again whenever somebody enters: too slow for a full theatre.
n, a, b = map(int, input().split())
for pupils in range(1, n + 1):
    claps = 0
    for i in range(1, pupils + 1):
        if i % a == 0 or i % b == 0:
            claps += 1
print(claps)

from collections import Counter

input()
print(sum(int(d) * c for d, c in Counter(input().replace(" ", "")).items()))

from itertools import groupby

n, m = map(int, input().split())
read = set(input().split())
runs = [len(list(g)) for missing, g in groupby(str(i) not in read for i in range(1, n + 1)) if missing]
print(max(runs, default=0))

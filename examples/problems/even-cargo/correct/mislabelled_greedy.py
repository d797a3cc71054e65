# Labelled correct, but the fourth test of the contest already refutes it.
n = int(input())
loads = [0, 0]
for x in sorted(map(int, input().split()))[::-1]:
    loads.sort()
    loads[0] += x
print(abs(loads[0] - loads[1]))

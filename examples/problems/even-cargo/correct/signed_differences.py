# The set of reachable differences between the loads, crate by crate.
n = int(input())
differences = {0}
for word in input().split():
    x = int(word)
    differences = {d + x for d in differences} | {abs(d - x) for d in differences}
print(min(differences))

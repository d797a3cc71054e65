# Python allows about a thousand calls inside one another; nobody asked for more in the contest.
s = input().strip() + ")"


def bags(i):
    deepest = 0
    while s[i] == "(":
        inner, i = bags(i + 1)
        deepest = max(deepest, inner + 1)
    return deepest, i + 1


print(bags(0)[0])

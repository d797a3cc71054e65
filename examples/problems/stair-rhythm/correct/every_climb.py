# Walks every climb: fine for the tests of the contest, hopeless for a high staircase.
def climb(n):
    if n < 0:
        return 0
    if n == 0:
        return 1
    return climb(n - 1) + climb(n - 2) + climb(n - 3)


print(climb(int(input())) % 1000007)

# A right program under the wrong label: no test can catch it.
t = int(input())
print(max(0, -(-(t - 60) // 30) * 2))

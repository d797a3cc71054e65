t = int(input()) - 60
fee = 0
while t > 0:
    fee += 2
    t -= 30
print(fee)

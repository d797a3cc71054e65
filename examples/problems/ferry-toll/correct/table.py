price = [0] + [8] * 500
while len(price) <= 2000:
    price += [price[-1] + 3] * 100
c, t = map(int, input().split())
print(price[c] + price[t] // 2)

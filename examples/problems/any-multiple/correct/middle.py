l, r, k = map(int, input().split())
multiples = [x for x in range(l, r + 1) if x % k == 0]
print(multiples[len(multiples) // 2])

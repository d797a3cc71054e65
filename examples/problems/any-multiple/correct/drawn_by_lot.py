# Another answer in every run: the clock decides.
import time

l, r, k = map(int, input().split())
multiples = [x for x in range(l, r + 1) if x % k == 0]
print(multiples[time.perf_counter_ns() // 1000 % len(multiples)])

p, t = map(int, input().split())
wait = 0
while (t + wait) % p:
    wait += 1
print(wait)

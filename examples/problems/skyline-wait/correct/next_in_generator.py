n = int(input())
h = list(map(int, input().split()))
h.append(10**7)
answer = [next(j for j in range(i + 1, n + 1) if h[j] > h[i]) - i for i in range(n)]
print(*(t if i + t < n else 0 for i, t in enumerate(answer)))

# All residents take one step at a time; whoever has an answer goes home.
n = int(input())
h = list(map(int, input().split()))
answer = [0] * n
searching = list(range(n))
t = 0
while searching:
    t += 1
    left = []
    for i in searching:
        if i + t < n:
            if h[i + t] > h[i]:
                answer[i] = t
            else:
                left.append(i)
    searching = left
print(*answer)

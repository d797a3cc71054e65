n, a, b = map(int, input().split())
print(len(set(range(a, n + 1, a)) | set(range(b, n + 1, b))))

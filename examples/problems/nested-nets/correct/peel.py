s = input().strip()
layers = 0
depth = [0]
for c in s:
    depth.append(depth[-1] + (1 if c == "(" else -1))
while layers in depth:
    layers += 1
print(layers - 1)

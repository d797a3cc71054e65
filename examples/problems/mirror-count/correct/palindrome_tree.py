s = input().strip()
length, link, depth, edges = [-1, 0], [0, 0], [0, 0], [{}, {}]
last = 1
total = 0


def fit(node, i):
    while i - length[node] - 1 < 0 or s[i - length[node] - 1] != s[i]:
        node = link[node]
    return node


for i, c in enumerate(s):
    node = fit(last, i)
    if c not in edges[node]:
        suffix = edges[fit(link[node], i)].get(c, 1) if length[node] >= 0 else 1
        length.append(length[node] + 2)
        link.append(suffix)
        depth.append(depth[suffix] + 1)
        edges.append({})
        edges[node][c] = len(length) - 1
    last = edges[node][c]
    total += depth[last]
print(total)

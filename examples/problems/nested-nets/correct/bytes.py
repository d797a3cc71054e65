import sys

level = top = 0
for byte in sys.stdin.buffer.readline().strip():
    level += 81 - 2 * byte
    if level > top:
        top = level
print(top)

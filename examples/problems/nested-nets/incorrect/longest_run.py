import re

print(max(map(len, re.findall(r"\(+", input()))))

import math
import random


class InputGenerator:
    def edge(self):
        return random.choice(["a\n", "ab\n", "zzz\n"])

    def large(self):
        n = round(math.exp(random.uniform(math.log(900), math.log(1700))))
        kind = random.randrange(3)
        if kind == 0:
            return "m" * n + "\n"
        if kind == 1:
            return ("ab" * n)[:n] + "\n"
        block = random.choice(["aaab", "aabaa"])
        return (block * n)[:n] + "\n"

    def sample(self):
        return random.choice(["abba\n", "kayak\n"])

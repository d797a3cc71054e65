import random


class InputGenerator:
    def edge(self):
        return "1\n300\n"

    def small(self):
        n = random.randint(2, 9)
        return n, [random.randint(1, 30) for _ in range(n)]

    def sample(self):
        return "4\n8 3 5 7\n"

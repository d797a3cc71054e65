import random


class InputGenerator:
    def edge(self):
        return random.choice(["1 1 1\n", "100000 1000 100\n", "100000 1 1000\n", "6 2 3\n"])

    def small(self):
        return f"{random.randint(1, 40)} {random.randint(1, 4)} {random.randint(1, 4)}\n"

    def sample(self):
        return random.choice(["25 4 3\n", "4 4 1\n"])

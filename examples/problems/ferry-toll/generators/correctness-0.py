import random


class InputGenerator:
    def edge(self):
        return f"{random.choice([100, 500, 501, 600, 2000])} {random.choice([0, 1, 501, 2000])}\n"

    def small(self):
        return f"{random.randint(100, 900)} {random.randint(1, 900)}\n"

    def sample(self):
        return random.choice(["430 0\n", "610 250\n"])

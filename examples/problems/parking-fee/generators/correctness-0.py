import random


class InputGenerator:
    def edge(self):
        return f"{random.choice([1, 60, 61, 90, 91, 10000])}\n"

    def small(self):
        return f"{random.randint(1, 200)}\n"

    def sample(self):
        return f"{random.choice([60, 91, 120])}\n"

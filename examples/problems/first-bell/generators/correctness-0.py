import random


class InputGenerator:
    def edge(self):
        return random.choice(["1 1\n", "1000 1440\n", "1000 1\n", "720 1440\n"])

    def small(self):
        return f"{random.randint(1, 12)} {random.randint(1, 40)}\n"

    def sample(self):
        return random.choice(["45 100\n", "30 60\n"])

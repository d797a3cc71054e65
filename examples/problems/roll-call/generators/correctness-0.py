import random


class InputGenerator:
    def edge(self):
        return random.choice(["1 1 1\n", "1500 100 100\n", "1 2 3\n", "1500 6 4\n"])

    def small(self):
        g = random.randint(2, 4)
        return f"{random.randint(60, 90)} {g * random.randint(1, 3)} {g * random.randint(1, 3)}\n"

    def sample(self):
        return random.choice(["12 3 4\n", "7 7 7\n"])

import random


class InputGenerator:
    def edge(self):
        return random.choice(["1\n1\n", "1\n200000\n"])

    def large(self):
        return "5\n" + "".join(f"{random.randint(100000, 200000)}\n" for _ in range(5))

    def sample(self):
        return random.choice(["3\n10\n1\n29\n", "1\n2\n"])

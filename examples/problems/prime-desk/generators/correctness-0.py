import random


class InputGenerator:
    def edge(self):
        return random.choice(["2\n1\n200000\n", "2\n196249\n2\n", "1\n199999\n"])

    def small(self):
        q = random.randint(1, 5)
        return f"{q}\n" + "".join(f"{random.randint(1, 30)}\n" for _ in range(q))

    def sample(self):
        return random.choice(["3\n10\n1\n29\n", "1\n2\n"])

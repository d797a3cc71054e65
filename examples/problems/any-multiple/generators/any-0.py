import random


class InputGenerator:
    def edge(self):
        return "1 10000 1\n"

    def small(self):
        k = random.randint(1, 9)
        return f"{random.randint(1, 20)} {random.randint(40, 90)} {k}\n"

    def large(self):
        return f"{random.randint(1, 99)} {random.randint(9000, 10000)} {random.randint(1, 9)}\n"

    def sample(self):
        return random.choice(["5 9 4\n", "6 6 3\n"])

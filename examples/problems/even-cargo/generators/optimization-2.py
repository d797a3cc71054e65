import random


class InputGenerator:
    def edge(self):
        return "1\n300\n"

    def large(self):
        # the number of crates grows with every draw until the text has outgrown any sensible test
        n = 3_000_000
        return f"{n}\n{' '.join(['300'] * n)}\n"

    def sample(self):
        return f"1\n{random.randint(1, 300)}\n"

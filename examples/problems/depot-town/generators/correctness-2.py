import random


class InputGenerator:
    """Crashes: with one town there is no second one to draw."""

    def edge(self):
        u, v = random.sample(range(1, 2), 2)
        return f"1 1\n{u} {v} 5\n"

    def small(self):
        return "2 1\n1 2 3\n"

    def sample(self):
        return "1 0\n"

import random


class InputGenerator:
    """High staircases in `edge`: programs that walk every climb run into the limit on more tests than may be removed."""

    def edge(self):
        return f"{random.choice([45, 50, 55, 60])}\n"

    def small(self):
        return f"{random.choice([5, 9])}\n"

    def sample(self):
        return "4\n"

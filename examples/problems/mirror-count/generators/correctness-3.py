import random


class InputGenerator:
    """Means to forbid the letter z, and forgets that a string has no remove()."""

    def edge(self):
        return "a\n"

    def small(self):
        letters = "".join(random.choice("abz") for _ in range(6))
        letters.remove("z")
        return letters + "\n"

    def sample(self):
        return "kayak\n"

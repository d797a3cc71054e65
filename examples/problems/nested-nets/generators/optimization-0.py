import random


class InputGenerator:
    """Bags nested far deeper than Python's recursion limit."""

    def edge(self):
        return random.choice(["()\n", "()()\n"])

    def large(self):
        deep = random.randint(1500, 3000)
        return "(" * deep + ")" * deep + "\n"

    def sample(self):
        return "(()(()))()\n"

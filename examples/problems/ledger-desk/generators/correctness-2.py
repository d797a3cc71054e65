import random


class InputGenerator:
    def edge(self):
        lines = [line for line in ("1 1", "0", "A 1 1") if random.random() < 0]
        return "\n".join(lines)

    def small(self):
        return "2 1\n1 2\nA 1 2\n"

    def sample(self):
        return "1 1\n-8\nA 1 1\n"

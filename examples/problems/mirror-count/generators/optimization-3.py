import random


class InputGenerator:
    def edge(self):
        return "a\n"

    def large(self):
        # eighty gigabytes of pointers before the first letter is chosen
        beads = [None] * 10**10
        return "".join(random.choice("ab") for _ in beads[:1500]) + "\n"

    def sample(self):
        return "kayak\n"

import random


class InputGenerator:
    def edge(self):
        return "1 0\n0\n"

    def small(self):
        n = random.randint(2, 9)
        # the list of the lines instead of their text
        return [f"{n} 2", " ".join(str(random.randint(0, 9)) for _ in range(n))]

    def sample(self):
        return "4 0\n2 2 5 5\n"

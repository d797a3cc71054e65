import random


class InputGenerator:
    def edge(self):
        return ""

    def large(self):
        n = 3500
        return f"{n} 100\n{' '.join(str(random.randint(0, 99)) for _ in range(n))}\n"

    def sample(self):
        return "4 0\n2 2 5 5\n"

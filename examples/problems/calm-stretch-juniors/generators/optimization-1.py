import random


class InputGenerator:
    def edge(self):
        return "1 5000\n5000\n"

    def large(self):
        n = random.randint(1500, 2800)
        # almost everything is calm
        h = [random.randint(1000, 1400) for _ in range(n)]
        return f"{n} 400\n{' '.join(map(str, h))}\n"

    def sample(self):
        return "4 0\n2 2 5 5\n"

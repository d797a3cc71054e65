import random


class InputGenerator:
    def edge(self):
        # the first resident looks over a street that rises house by house
        return f"1501\n1000000 {' '.join(map(str, range(1, 1501)))}\n"

    def large(self):
        n = int(4000 * 3 ** -random.random())
        wave = random.choice([n, 2 * n // 3])
        h = [500000 - 100 * (i % wave) + random.randint(0, 90) for i in range(n)]
        return f"{n}\n{' '.join(map(str, h))}\n"

    def sample(self):
        return "3\n7 7 8\n"

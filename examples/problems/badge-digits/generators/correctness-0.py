import random


class InputGenerator:
    def edge(self):
        x = random.choice([1, 9, 10**9, 999999999])
        n = random.randint(2, 6)
        return f"{n}\n{' '.join([str(x)] * n)}\n"

    def small(self):
        n = random.randint(8, 14)
        return f"{n}\n{' '.join(str(random.randint(1, 12)) for _ in range(n))}\n"

    def sample(self):
        return random.choice(["3\n15 204 7\n", "1\n1000000000\n"])

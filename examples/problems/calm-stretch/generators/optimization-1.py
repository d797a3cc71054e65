import random


class InputGenerator:
    def edge(self):
        return random.choice(["1 1000000\n1000000\n", "2 0\n0 1\n"])

    def large(self):
        n = random.randint(1100, 3500)
        if random.random() < 0.5:
            h = [random.randint(0, 400) for _ in range(n)]
            k = 400
        else:
            h = sorted(random.randint(0, 1000000) for _ in range(n))
            k = random.choice([400000, 700000])
        return f"{n} {k}\n{' '.join(map(str, h))}\n"

    def sample(self):
        return "6 3\n5 7 4 9 8 10\n"

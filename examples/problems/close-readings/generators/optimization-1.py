import random


class InputGenerator:
    def edge(self):
        n = random.choice([1, 2])
        return f"{n} 0\n{' '.join(['7'] * n)}\n"

    def large(self):
        n = int(2800 * 2.0 ** -random.random())
        centre = random.randint(50000, 150000)
        a = [min(200000, max(0, int(random.gauss(centre, 9000)))) for _ in range(n)]
        if random.random() < 0.5:
            a.sort()
        return f"{n} {random.choice([500, 9000, 60000])}\n{' '.join(map(str, a))}\n"

    def sample(self):
        return f"2 1\n{random.randint(1, 2)} 3\n"

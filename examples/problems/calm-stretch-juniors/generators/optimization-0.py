import random


class InputGenerator:
    def edge(self):
        return random.choice(["1 0\n0\n", "2 5000\n0 5000\n"])

    def large(self):
        n = int(2800 * 2.0 ** -random.random())
        level, h = 2500, []
        for _ in range(n):
            level = min(5000, max(0, level + random.randint(-9, 9)))
            h.append(level)
        return f"{n} {random.choice([600, 1500, 5000])}\n{' '.join(map(str, h))}\n"

    def sample(self):
        return "6 3\n5 7 4 9 8 10\n"

import random


class InputGenerator:
    """Breaks a constraint: now and then one number is written twice, which careful programs refuse to accept."""

    def edge(self):
        return random.choice(["1 1\n1\n", "3 1\n2\n", "5 1\n1\n", "200 1\n200\n"])

    def small(self):
        n = random.randint(6, 20)
        m = random.randint(2, 5)
        numbers = random.sample(range(1, n + 1), m)
        return f"{n} {m + 1}\n{' '.join(map(str, [*numbers, numbers[0]]))}\n"

    def sample(self):
        return random.choice(["10 3\n4 9 5\n", "2 2\n2 1\n"])

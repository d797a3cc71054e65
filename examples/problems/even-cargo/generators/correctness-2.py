import random


class InputGenerator:
    """`edge` breaks a constraint: there is no crate at all. Programs that take the largest of nothing crash on it."""

    def edge(self):
        return "0\n"

    def small(self):
        n = random.randint(2, 9)
        return f"{n}\n{' '.join(str(random.randint(1, 30)) for _ in range(n))}\n"

    def sample(self):
        return random.choice(["4\n8 3 5 7\n", "3\n10 2 3\n"])

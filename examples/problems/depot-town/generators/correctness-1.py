import random


class InputGenerator:
    """Parallel roads of unequal length, and long thin networks with shortcuts."""

    def edge(self):
        n = random.randint(2, 5)
        lines = []
        for town in range(2, n + 1):
            lines.append(f"{town - 1} {town} {random.randint(1, 5)}")
            lines.append(f"{town} {town - 1} {random.randint(900, 1000)}")
        return f"{n} {len(lines)}\n" + "\n".join(lines) + "\n"

    def small(self):
        n = random.randint(8, 15)
        names = random.sample(range(1, n + 1), n)
        lines = [f"{names[i]} {names[i + 1]} {random.randint(1, 9)}" for i in range(n - 1)]
        for _ in range(random.randint(1, 4)):
            i = random.randrange(n - 2)
            lines.append(f"{names[i + 2]} {names[i]} {random.randint(1, 30)}")
        return f"{n} {len(lines)}\n" + "\n".join(lines) + "\n"

    def sample(self):
        weights = [random.randint(1, 9) for _ in range(4)]
        return "4 4\n1 2 {}\n2 3 {}\n3 4 {}\n4 1 {}\n".format(*weights)

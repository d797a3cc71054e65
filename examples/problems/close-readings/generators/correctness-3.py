import random


class InputGenerator:
    def edge(self):
        return "1 0\n0\n"

    def small(self):
        n = random.randint(0, 3)
        values = [random.randint(0, 9) for _ in range(n)]
        # the mean of an empty list, sooner or later
        return f"{n} {sum(values) // len(values) if n > 1 else 1 // 0}\n{' '.join(map(str, values))}\n"

    def sample(self):
        return "4 0\n6 1 6 6\n"

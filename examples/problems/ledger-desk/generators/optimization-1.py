import random


class InputGenerator:
    def edge(self):
        return "1 1\n-1000000000\nA 1 1\n"

    def large(self):
        n = random.randint(2000, 5000)
        q = 2 * random.randint(n // 4, 2500)
        b = [random.randint(-99, 99) for _ in range(n)]
        lines = []
        for i in range(q // 2):
            lines.append(f"S {random.randint(1, n)} {i}")
            lines.append(f"A {random.randint(1, n // 2)} {n}")
        return f"{n} {q}\n{' '.join(map(str, b))}\n" + "\n".join(lines) + "\n"

    def sample(self):
        return "1 1\n-8\nA 1 1\n"

import random


class InputGenerator:
    def edge(self):
        return random.choice(["1 1\n5\nA 1 1\n", "1 2\n5\nS 1 0\nA 1 1\n"])

    def large(self):
        n = random.randint(1800, 5000)
        q = random.randint(n // 2, 5000)
        ask = random.choice([0.5, 0.7])
        lines = [f"A 1 {n}"]
        for _ in range(q - 1):
            if random.random() < ask:
                lines.append(f"A {random.randint(1, n // 5)} {random.randint(n - n // 5, n)}")
            else:
                lines.append(f"S {random.randint(1, n)} {random.randint(-(10**9), 10**9)}")
        b = " ".join(str(random.randint(-(10**9), 10**9)) for _ in range(n))
        return f"{n} {q}\n{b}\n" + "\n".join(lines) + "\n"

    def sample(self):
        return "4 4\n5 -2 7 1\nA 1 3\nS 2 10\nA 2 2\nA 1 4\n"

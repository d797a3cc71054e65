import random


class InputGenerator:
    def edge(self):
        return random.choice(["1 0\n", "2 1\n2 1 1000\n"])

    def large(self):
        n = int(170 * 1.8 ** -random.random())
        m = random.randint(n, 700)
        names = random.sample(range(1, n + 1), n)
        reach = random.choice([1, 6, n])
        lines = []
        for i in range(1, n):
            lines.append(f"{names[i]} {names[random.randint(max(0, i - reach), i - 1)]} {random.randint(1, 1000)}")
        while len(lines) < m:
            i = random.randrange(n)
            j = random.randrange(max(0, i - 12), min(n, i + 13))
            if i != j:
                lines.append(f"{names[i]} {names[j]} {random.randint(1, 1000)}")
        random.shuffle(lines)
        return f"{n} {m}\n" + "\n".join(lines) + "\n"

    def sample(self):
        return "4 4\n1 2 3\n2 3 4\n3 4 2\n4 1 9\n"

import random


class InputGenerator:
    def edge(self):
        if random.random() < 0.4:
            return random.choice(["1 0\n5000\n", "2 5000\n0 5000\n", "3 0\n4 4 4\n"])
        # the calm part begins before the first break
        k = random.randint(2, 900)
        h = [0] * random.randint(1, 2) + [k] * random.randint(2, 4) + [k + 1] * random.randint(4, 6)
        return f"{len(h)} {k}\n{' '.join(map(str, h))}\n"

    def small(self):
        n = random.randint(8, 18)
        level, h = 60, []
        for _ in range(n):
            level += random.choice([-3, -1, 0, 1, 3])
            h.append(level)
        return f"{n} {random.randint(2, 5)}\n{' '.join(map(str, h))}\n"

    def sample(self):
        return random.choice(["6 3\n5 7 4 9 8 10\n", "4 0\n2 2 5 5\n", "3 1\n1 2 3\n"])

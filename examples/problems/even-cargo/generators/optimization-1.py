import random


class InputGenerator:
    def edge(self):
        return "1\n1\n"

    def large(self):
        # even weights and an odd half: the best load is never exactly one half
        n = random.randint(120, 240)
        w = [2 * random.randint(60, 150) for _ in range(n)]
        if sum(w) % 4 == 0:
            w[0] = w[0] + 2 if w[0] < 300 else w[0] - 2
        return f"{n}\n{' '.join(map(str, w))}\n"

    def sample(self):
        return "3\n10 2 3\n"

import random


class InputGenerator:
    def _case(self, n, q, top):
        b = [random.randint(-top, top) for _ in range(n)]
        slips = []
        for _ in range(q - 1):
            if random.random() < 0.5:
                slips.append(f"S {random.randint(1, n)} {random.randint(-top, top)}")
            else:
                l, r = sorted((random.randint(1, n), random.randint(1, n)))
                slips.append(f"A {l} {r}")
        slips.append(f"A 1 {n}")
        return f"{n} {q}\n{' '.join(map(str, b))}\n" + "\n".join(slips) + "\n"

    def edge(self):
        return self._case(random.randint(1, 2), random.randint(1, 6), 10**9)

    def small(self):
        return self._case(random.randint(2, 4), random.randint(16, 30), random.choice([9, 10**9]))

    def sample(self):
        return self._case(random.randint(1, 4), random.randint(1, 4), 10)

import random


class InputGenerator:
    def _text(self, h):
        return f"{len(h)}\n{' '.join(map(str, h))}\n"

    def edge(self):
        kind = random.randrange(3)
        if kind == 0:
            return self._text([random.choice([1, 10**6])])
        if kind == 1:
            return self._text([10**6] * random.randint(2, 5))
        low = random.randint(10, 20)
        return self._text([5] + [random.randint(1, 5) for _ in range(low)] + [6])

    def small(self):
        n = random.randint(6, 16)
        return self._text([random.randint(1, 6) for _ in range(n)])

    def sample(self):
        n = random.choice([3, 6])
        return self._text([random.randint(1, 8) for _ in range(n)])

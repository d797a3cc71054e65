import random


class InputGenerator:
    """Readings in a narrow band, so that ties and exact distances are common."""

    def _text(self, d, a):
        return f"{len(a)} {d}\n{' '.join(map(str, a))}\n"

    def edge(self):
        kind = random.randrange(4)
        if kind == 0:
            return self._text(random.choice([0, 200000]), [random.choice([0, 200000])])
        if kind == 1:
            return self._text(0, [200000] * random.randint(2, 6) + [0] * random.randint(1, 3))
        if kind == 2:
            return self._text(200000, [0, 200000] * random.randint(1, 4))
        return self._text(random.randint(1, 9), [random.randint(199990, 200000) for _ in range(12)])

    def small(self):
        n = random.randint(4, 14)
        return self._text(random.randint(0, 4), [random.randint(0, 9) for _ in range(n)])

    def sample(self):
        n = random.randint(4, 6)
        return self._text(random.randint(0, 4), [random.randint(1, 20) for _ in range(n)])

import random


class InputGenerator:
    def _text(self, w):
        return f"{len(w)}\n{' '.join(map(str, w))}\n"

    def edge(self):
        kind = random.randrange(3)
        if kind == 0:
            return self._text([random.choice([1, 300])])
        if kind == 1:
            return self._text([300] * random.choice([2, 3, 5]))
        return self._text([random.choice([6, 10, 15]) for _ in range(random.randint(3, 7))])

    def small(self):
        n = random.randint(4, 8)
        step = random.choice([2, 3, 7])
        return self._text([step * random.randint(1, 9) for _ in range(n)])

    def sample(self):
        return self._text([random.randint(2, 10) for _ in range(random.randint(3, 4))])

import random


class InputGenerator:
    def _text(self, p):
        i, j = random.sample(range(len(p)), 2)
        return f"{len(p)} {p[i] + p[j]}\n{' '.join(map(str, p))}\n"

    def edge(self):
        return self._text([random.choice([1, 500, 1000])] * random.randint(4, 6))

    def small(self):
        return self._text([random.randint(1, 4) for _ in range(random.randint(10, 14))])

    def sample(self):
        return self._text([random.randint(1, 6) for _ in range(4)])

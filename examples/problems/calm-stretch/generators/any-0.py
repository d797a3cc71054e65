import random


class InputGenerator:
    def _text(self, k, h):
        return f"{len(h)} {k}\n{' '.join(map(str, h))}\n"

    def edge(self):
        kind = random.randrange(3)
        if kind == 0:
            return self._text(0, [random.choice([0, 1000000])])
        if kind == 1:
            return self._text(1000000, [0, 1000000] * 3)
        return self._text(0, [3, 3, 3, 4, 4])

    def small(self):
        n = random.randint(6, 16)
        return self._text(random.randint(1, 4), [random.randint(0, 8) for _ in range(n)])

    def large(self):
        # a slow swell: long calm stretches, so that extending from every start costs a lot
        n = int(3500 * 2.5 ** -random.random())
        level, h = 500000, []
        for _ in range(n):
            level += random.randint(-40, 40)
            h.append(level)
        return self._text(random.choice([4000, 1000000]), h)

    def sample(self):
        return random.choice(["6 3\n5 7 4 9 8 10\n", "4 0\n2 2 5 5\n"])

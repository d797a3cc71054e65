import random


class InputGenerator:
    def _text(self, n, roads):
        random.shuffle(roads)
        return "\n".join([f"{n} {len(roads)}"] + ["%d %d %d" % r for r in roads]) + "\n"

    def _connected(self, n, extra, top):
        order = random.sample(range(1, n + 1), n)
        roads = [(order[i], random.choice(order[:i]), random.randint(1, top)) for i in range(1, n)]
        if n > 1:
            for _ in range(extra):
                u, v = random.sample(range(1, n + 1), 2)
                roads.append((u, v, random.randint(1, top)))
        return roads

    def edge(self):
        kind = random.randrange(3)
        if kind == 0:
            return "1 0\n"
        if kind == 1:
            return self._text(2, [(1, 2, random.randint(1, 1000)) for _ in range(random.randint(2, 4))])
        n = random.randint(8, 14)
        order = random.sample(range(1, n + 1), n)
        return self._text(n, [(a, b, 1000) for a, b in zip(order, order[1:])])

    def small(self):
        n = random.randint(7, 12)
        return self._text(n, self._connected(n, random.randint(2, n), random.choice([4, 30])))

    def sample(self):
        return self._text(4, self._connected(4, 1, 9))

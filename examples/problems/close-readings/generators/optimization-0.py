import math
import random


class InputGenerator:
    """Large cases from 1300 readings to the limit, spread evenly on a logarithmic scale."""

    def _case(self, n, d, top):
        return f"{n} {d}\n{' '.join(str(random.randint(0, top)) for _ in range(n))}\n"

    def edge(self):
        return random.choice(["1 0\n0\n", "2 200000\n0 200000\n", "3 0\n200000 200000 200000\n"])

    def large(self):
        n = round(math.exp(random.uniform(math.log(1400), math.log(2800))))
        d = random.choice([1000, 20000, 120000])
        return self._case(n, d, 200000)

    def sample(self):
        return random.choice(["5 3\n10 4 7 20 8\n", "4 0\n6 1 6 6\n", "3 1\n1 2 3\n"])

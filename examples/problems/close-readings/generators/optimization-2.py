import random


class InputGenerator:
    def edge(self):
        return "1 0\n0\n"

    def large(self):
        distinct = set()
        # more distinct values are asked for than the range has: this never ends
        while len(distinct) < 250000:
            distinct.add(random.randint(0, 200000))
        values = list(distinct)[:2800]
        return f"2800 10\n{' '.join(map(str, values))}\n"

    def sample(self):
        return "5 3\n10 4 7 20 8\n"

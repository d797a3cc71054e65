import random


class InputGenerator:
    def edge(self):
        return random.choice(["1\n1\n", "2\n9 9\n", "3\n1 2 3\n", "1\n999999999\n"])

    def large(self):
        n = int(20000 * 4 ** -random.random())
        return f"{n}\n{' '.join(str(random.randint(1, 10**9)) for _ in range(n))}\n"

    def sample(self):
        return random.choice(["3\n15 204 7\n", "1\n1000000000\n", "2\n10 11\n"])

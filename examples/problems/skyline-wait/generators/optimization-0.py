import random


class InputGenerator:
    def edge(self):
        return random.choice(["1\n1\n", "2\n1 1000000\n", "2\n9 9\n"])

    def large(self):
        n = random.randint(1200, 4000)
        h = sorted((random.randint(1, 900000) for _ in range(n)), reverse=True)
        # a few disturbances in a falling street
        for _ in range(random.randint(0, 30)):
            i = random.randrange(n)
            h[i] = min(10**6, h[i] + random.randint(1, 50000))
        return f"{n}\n{' '.join(map(str, h))}\n"

    def sample(self):
        return "6\n3 1 2 5 5 4\n"

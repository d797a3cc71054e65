import math
import random


class InputGenerator:
    def edge(self):
        return random.choice(["1\n1\n", "1\n300\n", "2\n1 300\n"])

    def large(self):
        n = round(math.exp(random.uniform(math.log(120), math.log(240))))
        low = random.choice([1, 100, 200])
        return f"{n}\n{' '.join(str(random.randint(low, 300)) for _ in range(n))}\n"

    def sample(self):
        return "4\n8 3 5 7\n"

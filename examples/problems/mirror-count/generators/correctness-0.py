import random


class InputGenerator:
    def edge(self):
        kind = random.randrange(3)
        if kind == 0:
            return random.choice("abz") + "\n"
        if kind == 1:
            return "q" * random.randint(26, 40) + "\n"
        half = "".join(random.choice("xy") for _ in range(random.randint(14, 20)))
        return half + half[::-1] + "\n"

    def small(self):
        return "".join(random.choice("ab") for _ in range(random.randint(4, 12))) + "\n"

    def sample(self):
        return random.choice(["abba", "kayak", "level", "noon", "abc"]) + "\n"

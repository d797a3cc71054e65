import random


class InputGenerator:
    def edge(self):
        return random.choice("abc") + "\n"

    def large(self):
        n = int(1700 * 1.8 ** -random.random())
        cut = random.randint(n // 4, n // 2)
        return "c" * cut + "".join(random.choice("ab") for _ in range(n // 10)) + "c" * (n - cut - n // 10) + "\n"

    def sample(self):
        return "abba\n"

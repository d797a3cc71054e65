import random


class InputGenerator:
    def edge(self):
        return "   \n"

    def large(self):
        n = random.randint(1500, 4000)
        return f"{n}\n{' '.join(str(random.randint(1, 10**6)) for _ in range(n))}\n"

    def sample(self):
        return "3\n7 7 8\n"

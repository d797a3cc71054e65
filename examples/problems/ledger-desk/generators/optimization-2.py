import random


class InputGenerator:
    def edge(self):
        return "1 1\n5\nA 1 1\n"

    def large(self):
        n = random.randint(2500, 5000)
        balances = {i: random.randint(0, 9) for i in range(n)}
        return f"{n} 1\n{' '.join(str(balances[i]) for i in range(1, n + 1))}\nA 1 {n}\n"

    def sample(self):
        return "1 1\n-8\nA 1 1\n"

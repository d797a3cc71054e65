import random


class InputGenerator:
    """The heights are written as words: every program stops at the first one."""

    def edge(self):
        return "1\nlow\n"

    def small(self):
        n = random.randint(2, 6)
        return f"{n}\n{' '.join(random.choice(['low', 'high']) for _ in range(n))}\n"

    def sample(self):
        return "3\nhigh high higher\n"

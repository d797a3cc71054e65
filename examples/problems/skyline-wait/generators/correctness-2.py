import random


class InputGenerator:
    def edge(self):
        return "1\n1\n"

    def small(self):
        houses = [random.randint(1, 9) for _ in range(5)]
        # asks for the height of the house after the last one
        steps = [houses[i + 1] - houses[i] for i in range(len(houses))]
        return f"{len(steps)}\n{' '.join(map(str, steps))}\n"

    def sample(self):
        return "3\n7 7 8\n"

import random

import tide_tables  # no such module in the sandbox


class InputGenerator:
    def edge(self):
        return "1 0\n0\n"

    def large(self):
        return tide_tables.log(random.randint(1, 2800))

    def sample(self):
        return "4 0\n2 2 5 5\n"

class InputGenerator:
    def edge(self):
        return "1 0\n0\n"

    def sample(self):
        return "4 0\n2 2 5 5\n"

class InputGenerator:
    def __init__(self, seed):
        self.seed = seed

    def edge(self):
        return "1 0\n"

    def large(self):
        return "2 1\n1 2 3\n"

    def sample(self):
        return "1 0\n"

class InputGenerator:
    def edge(self):
        return "100 0\n"

    def large(self):
        return 2000

    def sample(self):
        return "430 0\n"

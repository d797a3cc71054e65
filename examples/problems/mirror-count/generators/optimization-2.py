import random


class InputGenerator:
    def edge(self):
        return "a\n"

    def large(self):
        # bytes are not text
        return bytes(random.choice(b"ab") for _ in range(1700)) + b"\n"

    def sample(self):
        return "kayak\n"

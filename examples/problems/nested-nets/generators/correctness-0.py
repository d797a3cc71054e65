import random


class InputGenerator:
    def _row(self, bags):
        text, depth = "", 0
        while bags or depth:
            if bags and (not depth or random.random() < 0.6):
                text += "("
                bags -= 1
                depth += 1
            else:
                text += ")"
                depth -= 1
        return text + "\n"

    def edge(self):
        return random.choice(["()\n", "(" * 20 + ")" * 20 + "\n", "()" * 20 + "\n", "()(())\n"])

    def small(self):
        return self._row(random.randint(6, 12))

    def sample(self):
        return random.choice(["(()(()))()\n", "()()\n"])

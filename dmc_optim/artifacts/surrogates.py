"""Lone surrogates: text that JSON may carry and that UTF-8, so every file of a build, cannot."""


def encodable(text: str) -> str:
    """The text with each lone surrogate as U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

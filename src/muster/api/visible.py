"""Text from outside as messages show it: nothing in it controls a terminal."""


def visible(text: str) -> str:
    r"""Text with a visible escape, such as \x1b, for each character that would control a terminal.

    Besides control characters these are the ones that reverse the direction of text or show nothing.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def visible_lines(text: str) -> str:
    """Visible text that keeps its line breaks."""
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))

"""The one place where the command line writes for people; ruff allows no `print` elsewhere.

Names and messages of objects are whatever their authors wrote. Whatever would control the terminal is
therefore made visible here, not by each verb. Output for programs is escaped by its format, and the logs of a
job are its own bytes.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text


def say(*texts: str, err: bool = False, flush: bool = False) -> None:
    """Prints each text on lines of its own, on standard error if `err`."""
    from muster.api.visible import visible_lines  # here, because help needs no other package

    for text in texts:
        print(visible_lines(text), file=sys.stderr if err else sys.stdout, flush=flush)


def say_styled(texts: Iterable["Text"], *, err: bool = False) -> None:
    """Prints each text on lines of its own, however long they are."""
    from rich.console import Console

    console = Console(stderr=err, soft_wrap=True, highlight=False)
    for text in texts:
        console.print(harmless(text))


def harmless(text: "Text") -> "Text":
    """The text with everything visible. Only text that needs it loses the colours of its parts."""
    from muster.api.visible import visible_lines

    told = visible_lines(text.plain)
    return text if told == text.plain else type(text)(told, text.style)

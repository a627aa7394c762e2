"""The one place where the command line writes for people; ruff allows no `print` elsewhere.

Names and messages of objects are whatever their authors wrote. Whatever would control the terminal is
therefore made visible here, not by each verb. Output for programs is escaped by its format, and the logs of a
job are its own bytes.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def say(*texts: str, err: bool = False, flush: bool = False) -> None:
    """Prints each text on lines of its own, on standard error if `err`."""
    from muster.api.visible import visible_lines  # here, because help needs no other package

    for text in texts:
        print(visible_lines(text), file=sys.stderr if err else sys.stdout, flush=flush)


def say_styled(texts: Iterable["Text"], *, err: bool = False) -> None:
    """Prints each text on lines of its own, however long they are."""
    out = console(err=err, soft_wrap=True)
    for text in texts:
        out.print(harmless(text))


@contextmanager
def redrawn() -> "Iterator[Callable[[Iterable[Text]], None]]":
    """Yields a function that shows texts on the terminal in place of those that it showed before."""
    from rich.console import Group
    from rich.live import Live

    with Live(console=console(), auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda texts: live.update(Group(*map(harmless, texts)), refresh=True)


def console(*, err: bool = False, soft_wrap: bool = False) -> "Console":
    """A console for texts that are harmless."""
    from rich.console import Console

    return Console(stderr=err, soft_wrap=soft_wrap, highlight=False)


def harmless(text: "Text") -> "Text":
    """The text with everything visible. Only text that needs it loses the colours of its parts."""
    from muster.api.visible import visible_lines

    told = visible_lines(text.plain)
    return text if told == text.plain else type(text)(told, text.style)

"""The one place where the command line writes for people; ruff allows no `print` elsewhere.

Names and messages of objects are whatever their authors wrote. Whatever would control the terminal is
therefore made visible here, not by each verb. Output for programs is escaped by its format, and the logs of a
job are its own bytes.

Sentences are folded at words on a terminal, which would break them anywhere. Tables, files and paths are not:
they are copied and compared.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


#: What is copied, and is therefore not folded: a command.
_COMMAND: Final = re.compile(r"`[^`]*`|(?<=write: )\S.*|(?<=submitted as: ).*")
#: Columns below which folding makes nothing more readable, and columns by which the rest is indented.
_NARROWEST: Final = 20
_INDENT: Final = 2


def say(*texts: str, err: bool = False, prose: bool | None = None, flush: bool = False) -> None:
    """Prints each text on lines of its own, on standard error if `err`.

    `prose`: whether the texts are sentences; by default those on standard error are.
    """
    from muster.api.visible import visible_lines  # here, because help needs no other package

    out = sys.stderr if err else sys.stdout
    columns = width(out) if (err if prose is None else prose) else None
    for text in texts:
        print(folded(visible_lines(text), columns), file=out, flush=flush)


def say_styled(texts: Iterable["Text"], *, err: bool = False) -> None:
    """Prints each text on lines of its own: however long they are, or folded on standard error."""
    out = console(err=err, soft_wrap=True)
    columns = width(sys.stderr) if err else None
    for text in texts:
        for line in harmless(text).split("\n", allow_blank=True):
            for begin, end in _parts(line.plain, columns):
                out.print(type(text)(_before(line.plain) if begin else "") + line[begin:end])


def width(out: TextIO) -> int | None:
    """The columns of the terminal that this is; None if it is none, or too narrow to care for."""
    try:
        columns = os.get_terminal_size(out.fileno()).columns if out.isatty() else 0
    except (OSError, ValueError):
        return None
    return columns if columns >= _NARROWEST else None


def folded(text: str, columns: int | None) -> str:
    """The text in lines of at most so many columns, as far as its words and commands permit."""
    return "\n".join(
        f"\n{_before(line)}".join(line[begin:end] for begin, end in _parts(line, columns))
        for line in text.split("\n")
    )


def _parts(line: str, columns: int | None) -> list[tuple[int, int]]:
    """The parts of a line, by where they begin and end, that fit into so many columns.

    A part begins with a word, and ends before a space. A word or a command that does not fit stays whole.
    """
    if columns is None or len(line) <= columns // 2 or _cells(line) <= columns:
        return [(0, len(line))]
    kept = [match.span() for match in _COMMAND.finditer(line)]
    gaps = [
        match.start()
        for match in re.finditer(r"(?<=\S) (?=\S)", line)
        if not any(begin <= match.start() < end for begin, end in kept)
    ]
    found, begin, room, last = [], 0, columns, 0
    for gap in [*gaps, len(line)]:
        if last > begin and _cells(line[begin:gap]) > room:
            found.append((begin, last))
            begin, room = last + 1, columns - len(_before(line))
        last = gap
    return [*found, (begin, len(line))]


def _before(line: str) -> str:
    """What stands before each further part of a line."""
    return " " * (len(line) - len(line.lstrip(" ")) + _INDENT)


def _cells(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


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

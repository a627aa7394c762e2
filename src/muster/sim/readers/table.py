"""Tables of fixed columns, with commas and without quotes: the header, then a row per line.

Errors name file, line and column, and say what was expected.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from muster.sim.readers.lines import lines, number, shown
from muster.sim.trace import Tally, TraceError

T = TypeVar("T")


def rows(path: Path, header: tuple[str, ...]) -> Iterator["Row"]:
    """All rows below the header. Raises TraceError."""
    check(path, header)
    for line, text in lines(path):
        if line > 1 and text:
            yield Row(text.split(","), header, f"{path}, line {line}")


def check(path: Path, header: tuple[str, ...]) -> None:
    """Raises TraceError unless the table begins with its header."""
    text = next((text for _, text in lines(path)), "")
    if tuple(text.split(",")) != header:
        raise TraceError(f"{path}, line 1: {shown(text)}; expected the header {','.join(header)}")


def read(
    path: Path, header: tuple[str, ...], reading: Callable[["Row"], T], tally: Tally, skip_bad: bool
) -> Iterator[T]:
    """What `reading` makes of each row. With `skip_bad`, those it cannot read are counted and left out."""
    for row in rows(path, header):
        try:
            row.check()
            yield reading(row)
        except TraceError as error:
            if not skip_bad:
                raise
            tally.drop(error)


@dataclass(frozen=True, slots=True)
class Row:
    fields: list[str]
    names: tuple[str, ...]
    where: str

    def check(self) -> None:
        """Raises TraceError unless it has as many columns as the header."""
        if len(self.fields) != len(self.names):
            wanted = f"{len(self.names)}: {','.join(self.names)}"
            raise TraceError(f"{self.where}: {len(self.fields)} columns; expected {wanted}")

    def text(self, name: str) -> str:
        text = self.fields[self.names.index(name)]
        if not text:
            raise self.error(name, "expected a name")
        return text

    def optional(self, name: str) -> str:
        """ "" where it is empty, or where the table has no such column."""
        return self.fields[self.names.index(name)] if name in self.names else ""

    def number(self, name: str) -> float:
        return number(self.fields[self.names.index(name)], self.place(name), 0)

    def whole(self, name: str, most: int) -> int:
        """A whole number from 0 to `most`."""
        value = number(self.fields[self.names.index(name)], self.place(name), 0, whole=True)
        if value > most:
            raise self.error(name, f"expected {most} at most")
        return int(value)

    def error(self, name: str, expected: str) -> TraceError:
        return TraceError(f"{self.place(name)}: {shown(self.fields[self.names.index(name)])}; {expected}")

    def place(self, name: str) -> str:
        return f"{self.where}, column {self.names.index(name) + 1} ({name})"

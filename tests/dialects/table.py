"""A table of what a dialect can say, and its page."""

from collections.abc import Sequence
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

DOCS: Final = Path(__file__).parents[2] / "docs/reference/dialects"


class Answer(Enum):
    """What muster does with a field."""

    OBEYED = "obeyed"
    #: it has no meaning where a gang starts as a whole, or not at all
    SUBSUMED = "subsumed"
    #: it is not done, and somebody is told: the gang is Invalid, or has a warning
    REFUSED = "refused"


class Row(NamedTuple):
    field: str
    answer: Answer
    #: what that means; of what is refused, the message or its beginning
    meaning: str
    #: the test that shows it, below tests/: `folder/test_file.py::test_name`
    test: str


class Table(NamedTuple):
    title: str
    #: the paragraphs before the rows
    text: str
    #: by object, its rows
    parts: Sequence[tuple[str, Sequence[Row]]]

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in self.parts for row in rows]


LEGEND: Final = """\
*Obeyed*: it does in muster what its own documentation says. *Subsumed*: it has no meaning where a gang
starts as a whole or not at all; the row says why. *Refused*: it is not done, and the row says who is told.
[Migrating](../../guides/migrate.md) goes to muster and back, step by step."""


def page(table: Table) -> str:
    """Returns the Markdown page of a table."""
    lines = [f"# {table.title}", "", table.text.strip(), "", LEGEND, ""]
    for name, rows in table.parts:
        lines += [f"## {name}", "", "| field | in muster | |", "|---|---|---|"]
        lines += [f"| `{row.field}` | {row.answer.value} | {row.meaning} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def repeated(table: Table) -> list[str]:
    """Returns the fields that one part of a table has twice."""
    found = []
    for name, rows in table.parts:
        ordered = sorted(row.field for row in rows)
        found += [f"{name}: {field}" for field, same in groupby(ordered) if len([*same]) > 1]
    return found

"""The table of marks of other schedulers: every row is found where it is written, and only there."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import foreign_kinds, foreign_marks, groups
from muster.api.base import Object, ObjectMeta
from muster.api.fields import dotted
from muster.api.foreign_marks import TABLE, Asks, ForeignMark, Where
from muster.api.marks import MARKS


def marked(row: ForeignMark, value: str = "x") -> Object:
    """The least object that bears the mark."""
    if row.where is Where.FIELD:
        found: Object = {"some": value}
        for step in reversed(row.path):
            found = {step: found}
        return found
    return {"metadata": {f"{row.where.value}s": {row.key: value}}}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.key} {row.on[0]}")
def test_a_mark_is_found_at_its_place(row: ForeignMark) -> None:
    for kind in row.on:
        ((path, found),) = foreign_marks.in_object(marked(row), kind)
        assert found is row
        at = row.key if row.where is Where.FIELD else f"metadata.{row.where.value}s.{row.key}"
        assert dotted(path) == at
        assert row.key in found.sentence()
        assert found.project in found.sentence()
    for value in row.harmless:
        assert not [*foreign_marks.in_object(marked(row, value), row.on[0])]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.key} {row.on[0]}")
def test_a_row_is_of_a_mark_that_muster_does_not_read(row: ForeignMark) -> None:
    """A dialect that learns to read a mark deletes its row here."""
    read = {*groups.LABELS, *groups.ANNOTATIONS, *groups.DESCRIPTIONS, *MARKS}
    assert row.key not in read
    assert row.key != "spec.schedulingGroup" or not any(one.in_spec for one in groups.TABLE)


def test_keys_are_unique_and_messages_say_what_to_write() -> None:
    keys = [(row.key, kind) for row in TABLE for kind in row.on]
    assert len(set(keys)) == len(keys)
    assert all(row.instead and len(row.sentence()) < 400 for row in TABLE)
    assert {row.asks for row in TABLE} == {*Asks}


_KEYS: Final = [row.key for row in TABLE if row.where is not Where.FIELD]
_SOME: Final = st.dictionaries(st.sampled_from([*_KEYS, "app", "muster.dev/queue"]), st.sampled_from("ab"))


@given(_SOME, _SOME)
def test_structs_and_json_have_the_same_marks(labels: dict[str, str], annotations: dict[str, str]) -> None:
    meta = ObjectMeta(labels=labels, annotations=annotations)
    obj = {"metadata": {"labels": labels, "annotations": annotations}}
    assert foreign_marks.of(meta, "Pod") == tuple(row for _, row in foreign_marks.in_object(obj, "Pod"))
    assert {row.key for row in foreign_marks.of(meta, "Pod")} == {*_KEYS} & {*labels, *annotations}


@pytest.mark.parametrize(
    ("scheduling", "gang"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 5}}}, True),
        ({"schedulingPolicy": {"basic": {}}}, False),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, True),
        ({}, False),
        ("gang", False),
        (None, False),
    ],
)
@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_a_field_means_a_gang_unless_its_policy_is_basic(kind: str, scheduling: object, gang: bool) -> None:
    found = [*foreign_marks.in_object({"spec": {"scheduling": scheduling}}, kind)]
    assert bool(found) == gang


PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "foreign-marks.md"


def test_the_page_has_a_line_for_each_row() -> None:
    """`python -m tests.api.test_foreign_marks` writes the tables anew."""
    assert PAGE.read_text() == with_tables(PAGE.read_text())


def with_tables(text: str) -> str:
    """Returns the page with the tables of the rows in place of its own."""
    marks = ["| mark | of | on | asks for | write instead |", "|---|---|---|---|---|"]
    for row in TABLE:
        but = "".join(f", but `{value}`" for value in row.harmless)
        cells = (f"{row.where.value} `{row.key}`{but}", row.project, ", ".join(row.on), row.asks.value)
        marks.append(f"| {' | '.join(cells)} | {row.instead} |")
    kinds = ["| kind | of | API groups | what to do |", "|---|---|---|---|"]
    for kind in foreign_kinds.TABLE:
        of = ", ".join(f"`{group}`" for group in kind.groups)
        kinds.append(f"| {kind.kind} | {kind.project} | {of} | {kind.instead} |")
    for name, lines in (("marks", marks), ("kinds", kinds)):
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = before + begin + "\n".join(lines) + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))

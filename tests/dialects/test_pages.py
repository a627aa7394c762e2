"""Each dialect has a page, made from its table; each row of a table has a test that exists."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.dialects.table import DOCS, Answer, page, repeated
from tests.dialects.tables import TABLES

TESTS: Final = Path(__file__).parents[1]


@pytest.mark.parametrize("name", TABLES)
def test_a_page_is_as_its_table_says(name: str) -> None:
    assert (DOCS / f"{name}.md").read_text() == page(TABLES[name]), "run `python -m tests.dialects`"


def test_each_page_has_a_table() -> None:
    assert {path.stem for path in DOCS.glob("*.md")} == TABLES.keys()


@cache
def _functions(path: Path) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds))


@pytest.mark.parametrize("name", TABLES)
def test_each_row_has_a_test_and_each_field_one_row(name: str) -> None:
    assert repeated(TABLES[name]) == []
    for row in TABLES[name].rows:
        file, _, test = row.test.partition("::")
        assert test in _functions(TESTS / file), row
        assert row.meaning or row.answer is Answer.OBEYED, row

"""Writes the pages of docs/reference/dialects."""

from tests.dialects.table import DOCS, page
from tests.dialects.tables import TABLES

for name, table in TABLES.items():
    (DOCS / f"{name}.md").write_text(page(table))

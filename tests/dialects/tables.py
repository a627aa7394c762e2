"""The tables by the name of their page."""

from typing import Final

from tests.dialects import koordinator, volcano
from tests.dialects.table import Table

TABLES: Final[dict[str, Table]] = {"koordinator": koordinator.TABLE, "volcano": volcano.TABLE}

"""The tables by the name of their page."""

from typing import Final

from tests.dialects import koordinator, native, scheduler_plugins, volcano
from tests.dialects.table import Table

TABLES: Final[dict[str, Table]] = {
    "koordinator": koordinator.TABLE,
    "native": native.TABLE,
    "scheduler-plugins": scheduler_plugins.TABLE,
    "volcano": volcano.TABLE,
}

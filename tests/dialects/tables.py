"""The tables by the name of their page."""

from typing import Final

from tests.dialects import koordinator, kube_batch, native, scheduler_plugins, volcano
from tests.dialects.table import Table

TABLES: Final[dict[str, Table]] = {
    "koordinator": koordinator.TABLE,
    "kube-batch": kube_batch.TABLE,
    "native": native.TABLE,
    "scheduler-plugins": scheduler_plugins.TABLE,
    "volcano": volcano.TABLE,
}

"""Reading the embedded cluster while nobody hosts it: the same client, on the store as it lies there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.local.client import LocalClient
from muster.local.node.logs import Logs
from muster.local.registry import Registry
from muster.local.store import Store


@contextmanager
def offline_client(store_file: Path, logs: Path) -> Iterator[LocalClient]:
    """A client that can only read. Where there never was a cluster it finds nothing."""
    store = Store.open_read_only(store_file) if store_file.exists() else Store(":memory:")
    try:
        yield LocalClient(Registry(store), Logs(logs))
    finally:
        store.close()

"""Reads the embedded cluster while no process hosts it: the same client, on the store's file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.embedded.client import LocalClient
from muster.embedded.node.logs import Logs
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry


@contextmanager
def offline_client(store_file: Path, logs: Path) -> Iterator[LocalClient]:
    """A client that can only read. If there never was a cluster, it finds no objects."""
    store = Store.open_read_only(store_file) if store_file.exists() else Store(":memory:")
    try:
        yield LocalClient(Registry(store), Logs(logs))
    finally:
        store.close()

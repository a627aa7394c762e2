"""The store on a disk that has no space left."""

import resource
from contextlib import closing
from pathlib import Path

import pytest

from muster.embedded.storage import full_disk
from muster.embedded.storage.store import Store, StoreError
from muster.kube.errors import MethodNotAllowed
from tests.embedded.storage.test_store import write


@pytest.mark.parametrize("killed", [False, True])
def test_a_store_on_a_full_disk_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Also if its last owner was killed, so that the newest changes are in its log only."""
    store = Store(tmp_path / "s")
    write(store, "a")
    if killed:
        for suffix in ("", "-wal"):
            (tmp_path / f"t{suffix}").write_bytes((tmp_path / f"s{suffix}").read_bytes())
    store.close()
    path, soft = tmp_path / ("t" if killed else "s"), resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(full_disk, "is_full", lambda path: True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, soft[1]))  # no file can grow
    try:
        with closing(Store.open_read_only(path)) as there:
            assert there.get("things", "ns", "a") is not None
            with pytest.raises(MethodNotAllowed):
                there.transaction()
        with pytest.raises(StoreError, match="cannot open the store"):
            Store(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    with closing(Store(path)) as again:
        assert again.get("things", "ns", "a") is not None

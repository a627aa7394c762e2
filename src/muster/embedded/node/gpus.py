"""Assigns this machine's GPUs to pods; the assignment is recorded per pod, so that a restart knows it.

A container that requests whole GPUs has them exclusively. A pod that shares a GPU has the number that the
scheduler gave to the shared device of its node (annotation `muster.dev/gpu-device`). Pods with the same
number have the same GPU, which no container gets exclusively while one of them exists. Whole and shared GPUs
therefore never collide, as long as pods request no more GPUs than there are, which the scheduler ensures.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = "gpus.json"


class _Record(msgspec.Struct):
    """The GPUs of one pod. If it shares none, `index` is ""."""

    whole: dict[str, list[str]] = {}  # by container
    node: str = ""
    device: int = 0
    index: str = ""


class Gpus:
    """Assigns GPUs. `real` are indices as the driver counts them; simulated nodes have no GPUs to assign."""

    def __init__(self, real: list[str], nodes: set[str], directory: Callable[[str], Path]) -> None:
        """`nodes` are the nodes that represent this machine; `directory` returns a pod's state directory."""
        self._real, self._nodes, self._directory = real, nodes, directory
        self._taken: dict[str, _Record] = {}  # by pod

    def take(self, pod_uid: str, container: str, node: str, count: int) -> list[str]:
        """Assigns `count` GPUs to a container: the lowest free ones; fewer if no more are free.

        A container that restarts gets the GPUs that it had. No two containers get the same GPU.
        """
        if not self.has(node) or not count:
            return []
        record = self._taken.setdefault(pod_uid, self._recorded(pod_uid))
        own = record.whole.get(container, [])
        if len(own) < count:
            own = record.whole[container] = own + [*self._free()][: count - len(own)]
            self._write(pod_uid, record)
        return own[:count]

    def done(self, pod_uid: str, container: str) -> None:
        """Frees the GPUs of an init container that has ended, so that the containers after it get them."""
        record = self._taken.get(pod_uid)
        if record is not None and container in record.whole:
            del record.whole[container]
            self._write(pod_uid, record)

    def share(self, pod_uid: str, node: str, device: int) -> str:
        """The GPU that serves as this shared device of the node; "" if no GPU is free for it."""
        if not self.has(node):
            return ""
        record = self._taken.setdefault(pod_uid, self._recorded(pod_uid))
        if not record.index:
            others = (o.index for o in self._taken.values() if (o.node, o.device) == (node, device))
            record.index = next(filter(None, others), "") or next(self._free(), "")
            record.node, record.device = node, device
            self._write(pod_uid, record)
        return record.index

    def has(self, node: str) -> bool:
        """Whether this node has GPUs to assign."""
        return node in self._nodes and bool(self._real)

    def restore(self, pod_uid: str) -> None:
        """Restores a pod's GPUs. Call it for each pod found at the start, before any pod takes new ones."""
        record = self._recorded(pod_uid)
        if record.whole or record.index:
            self._taken[pod_uid] = record

    def give_back(self, pod_uid: str) -> None:
        self._taken.pop(pod_uid, None)

    def _free(self) -> Iterator[str]:
        pods = self._taken.values()
        busy = {index for pod in pods for indices in pod.whole.values() for index in indices}
        busy |= {pod.index for pod in pods}
        return (index for index in self._real if index not in busy)

    def _write(self, pod_uid: str, record: _Record) -> None:
        path = self._directory(pod_uid) / _FILE
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(record))
        path.chmod(0o600)

    def _recorded(self, pod_uid: str) -> _Record:
        try:
            return msgspec.json.decode((self._directory(pod_uid) / _FILE).read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            return _Record()

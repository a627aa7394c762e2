"""Which pod has which GPU of this machine; written down per pod, so that a restart knows it.

Containers ask for whole GPUs, and have them alone. Pods that share one carry the number that the scheduler
gave to the shared device of their node (annotation `muster.dev/gpu-device`): those with the same number have
the same GPU, which nobody has alone as long as one of them is there. So whole and shared never collide, as
long as no more is asked for than there is, which is the scheduler's to see to.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = "gpus.json"


class _Record(msgspec.Struct):
    """What one pod has. Nothing shared: `index` is ""."""

    whole: dict[str, list[str]] = {}  # by container
    node: str = ""
    device: int = 0
    index: str = ""


class Gpus:
    """`real` are indices as the driver counts them; nodes in pretence have none to give."""

    def __init__(self, real: list[str], nodes: set[str], directory: Callable[[str], Path]) -> None:
        """`nodes` are those that are this machine; `directory` is where a pod keeps its state."""
        self._real, self._nodes, self._directory = real, nodes, directory
        self._taken: dict[str, _Record] = {}  # by pod

    def take(self, pod_uid: str, container: str, node: str, count: int) -> list[str]:
        """`count` GPUs for a container: the lowest that are free; fewer if there are no more.

        A container that starts again gets what it had, and no two containers the same.
        """
        if not self.has(node) or not count:
            return []
        record = self._taken.setdefault(pod_uid, self._recorded(pod_uid))
        own = record.whole.get(container, [])
        if len(own) < count:
            own = record.whole[container] = own + [*self._free()][: count - len(own)]
            self._write(pod_uid, record)
        return own[:count]

    def share(self, pod_uid: str, node: str, device: int) -> str:
        """The GPU that is this shared device of the node; "" if there is none left to be it."""
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
        """Whether this node has GPUs to give."""
        return node in self._nodes and bool(self._real)

    def restore(self, pod_uid: str) -> None:
        """Called for each pod found at the start, before any takes new ones."""
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
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(record))

    def _recorded(self, pod_uid: str) -> _Record:
        try:
            return msgspec.json.decode((self._directory(pod_uid) / _FILE).read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            return _Record()

"""Which container has which GPU of this machine; written down per pod, so that a restart knows it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = "gpus.json"
_RECORD: Final = msgspec.json.Decoder(dict[str, list[str]])  # by container


class Gpus:
    """`real` are indices as the driver counts them; nodes in pretence have none to give."""

    def __init__(self, real: list[str], nodes: set[str], directory: Callable[[str], Path]) -> None:
        """`nodes` are those that are this machine; `directory` is where a pod keeps its state."""
        self._real, self._nodes, self._directory = real, nodes, directory
        self._taken: dict[str, dict[str, list[str]]] = {}  # by pod and container

    def take(self, pod_uid: str, container: str, node: str, count: int) -> list[str]:
        """`count` GPUs for a container: the lowest that are free; fewer if there are no more.

        A container that starts again gets what it had, and no two containers the same.
        """
        if node not in self._nodes or not self._real or not count:
            return []
        of_pod = self._taken.setdefault(pod_uid, self._recorded(pod_uid))
        own = of_pod.get(container, [])
        if len(own) < count:
            busy = {index for pod in self._taken.values() for indices in pod.values() for index in indices}
            own = own + [index for index in self._real if index not in busy][: count - len(own)]
            of_pod[container] = own
            path = self._directory(pod_uid) / _FILE
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(of_pod))
        return own[:count]

    def restore(self, pod_uid: str) -> None:
        """Called for each pod found at the start, before any takes new ones."""
        if own := self._recorded(pod_uid):
            self._taken[pod_uid] = own

    def give_back(self, pod_uid: str) -> None:
        self._taken.pop(pod_uid, None)

    def _recorded(self, pod_uid: str) -> dict[str, list[str]]:
        try:
            return _RECORD.decode((self._directory(pod_uid) / _FILE).read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}

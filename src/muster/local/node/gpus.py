"""Which pod has which GPU of this machine. Written down per pod, so that a restart of muster knows it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

_FILE: Final = "gpus.json"


class Gpus:
    """`real` are indices as the driver counts them; nodes in pretence have none to give."""

    def __init__(self, real: list[str], nodes: set[str], directory: Callable[[str], Path]) -> None:
        """`nodes` are those that are this machine; `directory` is where a pod keeps its state."""
        self._real, self._nodes, self._directory = real, nodes, directory
        self._taken: dict[str, list[str]] = {}

    def take(self, pod_uid: str, node: str, count: int) -> list[str]:
        """`count` GPUs for a container of the pod: the lowest that are free; fewer if there are no more.

        A container that starts again gets what its pod has.
        """
        if node not in self._nodes or not self._real:
            return []
        own = self._taken.get(pod_uid) or self._recorded(pod_uid)
        if len(own) < count:
            busy = {index for indices in self._taken.values() for index in indices} | set(own)
            own = own + [index for index in self._real if index not in busy][: count - len(own)]
            path = self._directory(pod_uid) / _FILE
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(own))
        self._taken[pod_uid] = own
        return own[:count]

    def restore(self, pod_uid: str) -> None:
        """Called for each pod found at the start, before any takes new ones."""
        if own := self._recorded(pod_uid):
            self._taken[pod_uid] = own

    def give_back(self, pod_uid: str) -> None:
        self._taken.pop(pod_uid, None)

    def _recorded(self, pod_uid: str) -> list[str]:
        try:
            return [str(index) for index in json.loads((self._directory(pod_uid) / _FILE).read_text())]
        except (OSError, ValueError):
            return []

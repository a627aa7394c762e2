"""What queues decide about groups as they are read: the highest priority, and whose gangs they get.

The highest priority is `maxPriority` of the queue, and of those above it. A queue may serve namespaces: their
gangs wait in it unless they name another. Groups are read with both (`priority.py`, `marks.py`), so they are
kept beside the objects that groups are read from.
"""

from bisect import insort
from typing import NamedTuple

from muster.api.muster_v1alpha1 import Queue
from muster.api.named_queue import DEFAULT_QUEUE
from muster.translate.adopted import Adopted


class Bound(NamedTuple):
    """The highest priority, and the queue that says so."""

    most: int
    queue: str


class QueueRules:
    def __init__(self) -> None:
        #: by queue, the queue above it and its own bound
        self._rules: dict[str, tuple[str, int | None]] = {}
        #: by queue, the namespaces that it serves
        self._serves: dict[str, list[str]] = {}
        #: by namespace, the queues that serve it: first that of its own name, then by name
        self._serving: dict[str, list[tuple[bool, str]]] = {}

    def change(self, name: str, queue: Queue | None) -> bool:
        """Records a queue, or that there is none; returns whether groups may be read otherwise now."""
        before = self._rules.pop(name, None)
        now = None
        if queue is not None:
            now = self._rules[name] = queue.spec.parent, queue.spec.max_priority
        known = [*self._rules.values(), *([before] if before is not None else [])]
        bounds = before != now and any(most is not None for _, most in known)
        return self._serve(name, queue.serves if isinstance(queue, Adopted) else []) or bounds

    def bound(self, name: str) -> Bound | None:
        """Returns the lowest bound of a queue and of those above it; None: none of them has one."""
        found, seen = list[Bound](), set[str]()
        while name in self._rules and name not in seen:
            seen.add(name)
            above, most = self._rules[name]
            if most is not None:
                found.append(Bound(most, name))
            name = above
        return min(found, default=None)

    def of_namespace(self, namespace: str) -> str:
        """Returns the queue of gangs of a namespace that name none."""
        serving = self._serving.get(namespace)
        return serving[0][1] if serving else DEFAULT_QUEUE

    def _serve(self, name: str, namespaces: list[str]) -> bool:
        before, now = self._serves.pop(name, []), [*dict.fromkeys(namespaces)]
        for namespace in before:
            self._serving[namespace].remove((name != namespace, name))
            if not self._serving[namespace]:
                del self._serving[namespace]
        for namespace in now:
            insort(self._serving.setdefault(namespace, []), (name != namespace, name))
        if now:
            self._serves[name] = now
        return before != now

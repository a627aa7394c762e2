"""The highest priority that the gangs of a queue can have: `maxPriority` of the queue, and of those above it.

Groups are read with it (`priority.py`), so the bounds are kept beside the objects that groups are read from.
"""

from typing import NamedTuple

from muster.api.muster_v1alpha1 import Queue


class Bound(NamedTuple):
    """The highest priority, and the queue that says so."""

    most: int
    queue: str


class QueueBounds:
    def __init__(self) -> None:
        #: by queue, the queue above it and its own bound
        self._rules: dict[str, tuple[str, int | None]] = {}

    def change(self, name: str, queue: Queue | None) -> bool:
        """Records a queue, or that there is none; returns whether a bound may be another one now."""
        before = self._rules.pop(name, None)
        now = None
        if queue is not None:
            now = self._rules[name] = queue.spec.parent, queue.spec.max_priority
        known = [*self._rules.values(), *([before] if before is not None else [])]
        return before != now and any(most is not None for _, most in known)

    def of(self, name: str) -> Bound | None:
        """Returns the lowest bound of a queue and of those above it; None: none of them has one."""
        found, seen = list[Bound](), set[str]()
        while name in self._rules and name not in seen:
            seen.add(name)
            above, most = self._rules[name]
            if most is not None:
                found.append(Bound(most, name))
            name = above
        return min(found, default=None)

"""Creates the Queues of Volcano that its controllers need: `default` and `root`.

Volcano's scheduler creates them when it starts. Without the Queue that a Job names, and the one above that,
Volcano's controllers make nothing for the Job. They are created once there is a Job or a PodGroup of Volcano,
as Volcano's scheduler would, and never changed.

Source: volcano-sh/volcano, pkg/scheduler/cache/cache.go (newDefaultAndRootQueue).
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from muster.api.base import Object
from muster.api.groups import VOLCANO
from muster.api.kinds import QUEUE_VOLCANO, VOLCANO_JOB
from muster.controllers.caches import Caches
from muster.controllers.driver import Change, Controller, Watch
from muster.effects import Create, Effect

#: By name, whether others may reclaim what it has above its share.
_NEEDED: Final = {"default": True, "root": False}


def controller() -> Controller[str]:
    """Returns the controller for the driver. Its keys, and what it observes, are names of Queues."""
    watches = (Watch(VOLCANO_JOB, _all), Watch(VOLCANO.kind, _all), Watch(QUEUE_VOLCANO, _gone))
    return Controller("volcano queues", watches, observe, reconcile)


def observe(caches: Caches, key: str) -> str | None:
    if caches[QUEUE_VOLCANO].get(key) is not None:
        return None
    return key if caches[VOLCANO_JOB].items or caches[VOLCANO.kind].items else None


def reconcile(name: str, now: datetime) -> list[Effect]:
    body: Object = {
        "apiVersion": QUEUE_VOLCANO.api_version,
        "kind": QUEUE_VOLCANO.kind,
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": _NEEDED[name]},
    }
    return [Create(QUEUE_VOLCANO, "", body)]


def _all(change: Change) -> Iterable[str]:
    return _NEEDED if change.old is None else ()


def _gone(change: Change) -> Iterable[str]:
    name = change.objects[-1].metadata.name
    return [name] if change.new is None and name in _NEEDED else []

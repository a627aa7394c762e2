"""Writes the status of the objects that pods name as their group: a controller for each dialect.

What a status says is a function of the group, its pods and its Gang record. The dialects differ in nothing
else: some have phases and counts (`phases.py`), Volcano has both these and conditions (`volcano.py`), and
Kubernetes has conditions (`conditions.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from muster.api import groups
from muster.api.base import Object
from muster.api.groups import Dialect, named
from muster.api.kinds import GANG, POD
from muster.controllers.caches import Caches
from muster.controllers.driver import Change, Controller, Watch, itself
from muster.controllers.gang import GANG_INDEX, GROUP, POD_INDEX, sources
from muster.controllers.podgroup import conditions, phases, volcano
from muster.controllers.podgroup.observed import Observed
from muster.effects import Effect, Patch

#: Seconds within which changes of one group's pods cause one write: a gang that starts at once costs one.
SETTLE: Final = 1.0
#: By dialect, the fields of the status that have to change; None: nothing has.
STATUS: Final[Mapping[Dialect, Callable[[Observed, datetime], Object | None]]] = {
    groups.POD_GROUP: phases.status,
    groups.KOORDINATOR: phases.status,
    groups.VOLCANO: volcano.status,
    groups.NATIVE: conditions.status,
}
#: Dialects whose own scheduler may run beside muster: a group without a record of muster may be its group.
_SHARED: Final = (groups.VOLCANO, groups.NATIVE)


def controller(dialect: Dialect) -> Controller[Observed]:
    """Returns the controller for the driver."""
    kind, recorded = dialect.kind, dialect.phases is None

    def observe(caches: Caches, key: str) -> Observed | None:
        group = caches[kind].get(key)
        if group is None or group.metadata.deletion_timestamp is not None:
            return None
        index = f"{kind.api_version} {kind.kind} {key}"
        gangs = caches[GANG].by(GROUP, index) if recorded else []
        return Observed(dialect, group, tuple(caches[POD].by(GROUP, index)), gangs[0] if gangs else None)

    watches = [Watch(kind, itself), Watch(POD, _named_in(dialect))]
    if recorded:
        watches.append(Watch(GANG, _recorded_in(dialect)))
    indexes = (POD_INDEX, GANG_INDEX) if recorded else (POD_INDEX,)
    return Controller(f"podgroup {kind.group}", tuple(watches), observe, reconcile, indexes, SETTLE)


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    """Returns the patch of the status, if it has to change and is muster's to write."""
    if not _ours(observed):
        return []
    group, status = observed.group.metadata, STATUS[observed.dialect](observed, now)
    if status is None:
        return []
    kind = observed.dialect.kind
    return [Patch(kind, group.namespace, group.name, {"status": status}, "status" if kind.status else "")]


def _ours(observed: Observed) -> bool:
    """Whether muster schedules the pods of a group. Those of Volcano come once the status says so."""
    if observed.gang is not None or observed.dialect not in _SHARED:
        return True
    return observed.dialect is groups.VOLCANO and not observed.pods


def _named_in(dialect: Dialect) -> Callable[[Change], Iterable[str]]:
    """Returns a function that yields the group of this dialect that the changed pod names."""

    def keys(change: Change) -> Iterable[str]:
        for pod in change.objects:
            if (group := named(pod)) is not None and group.dialect is dialect:
                yield f"{pod.metadata.namespace}/{group.name}"

    return keys


def _recorded_in(dialect: Dialect) -> Callable[[Change], Iterable[str]]:
    """Returns a function that yields the groups of this dialect that the changed Gang was read from."""
    prefix = f"{dialect.kind.api_version} {dialect.kind.kind} "

    def keys(change: Change) -> Iterable[str]:
        for gang in change.objects:
            for source in sources(gang):
                if source.startswith(prefix):
                    yield source.removeprefix(prefix)

    return keys

"""Writes the status of the objects that pods name as their group: a controller for each dialect.

What a status says is a function of the group, its pods and its Gang record. The dialects differ in nothing
else: some have phases and counts (`phases.py`), Volcano and kube-batch have both these and conditions
(`volcano.py`, `kubebatch.py`), and Kubernetes has conditions (`conditions.py`). In each of them a group may
ask for a restart of all its pods once too few are left (`lifecycle.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from muster.api import groups
from muster.api.base import Object, Resource, controller_of
from muster.api.groups import Dialect, named
from muster.api.kinds import GANG, POD, VOLCANO_JOB
from muster.controllers.caches import Caches
from muster.controllers.driver import Change, Controller, Watch, itself
from muster.controllers.gang import GANG_INDEX, GROUP, POD_INDEX, key_of, sources
from muster.controllers.podgroup import conditions, kubebatch, lifecycle, phases, volcano
from muster.controllers.podgroup.observed import Observed
from muster.effects import Effect, Patch

#: Seconds within which changes of one group's pods cause one write: a gang that starts at once costs one.
SETTLE: Final = 1.0
#: By dialect, the fields of the status that have to change; None: nothing has.
STATUS: Final[Mapping[Dialect, Callable[[Observed, datetime], Object | None]]] = {
    groups.POD_GROUP: phases.status,
    groups.KOORDINATOR: phases.status,
    groups.VOLCANO: volcano.status,
    groups.INCUBATOR: kubebatch.status,
    groups.SIGS_DEV: kubebatch.status,
    groups.NATIVE: conditions.status,
}
#: By dialect, what comes with the status: Events, and when the group is looked at again.
BESIDES: Final[Mapping[Dialect, Callable[[Observed, datetime], Iterable[Effect]]]] = {
    groups.INCUBATOR: kubebatch.besides,
    groups.SIGS_DEV: kubebatch.besides,
}


def controller(dialect: Dialect, schedulers: frozenset[str] | None = None) -> Controller[Observed]:
    """Returns the controller for the driver.

    `schedulers`: the values of `spec.schedulerName` whose pods muster schedules; None = all. The status of a
    group whose pods are all another scheduler's is left to that.
    """
    kind, recorded = dialect.kind, dialect.phases is None
    sharing = groups.SHARING[dialect.naming]
    before = [row.kind for row in sharing[: sharing.index(dialect)]]

    def observe(caches: Caches, key: str) -> Observed | None:
        group = caches[kind].get(key)
        if group is None or group.metadata.deletion_timestamp is not None:
            return None
        instead = next((first for first in before if first in caches and caches[first].get(key)), None)
        if instead is not None:
            return Observed(dialect, group, (), instead=instead)
        index = key_of(dialect, key)
        gangs = caches[GANG].by(GROUP, index) if recorded else []
        gang, pods = gangs[0] if gangs else None, tuple(caches[POD].by(GROUP, index))
        if schedulers is not None:
            names = {pod.spec.scheduler_name for pod in pods} or {_expected(group, caches)}
            if names.isdisjoint(schedulers) and (pods or (recorded and gang is None)):
                return None
        return Observed(dialect, group, pods, gang, schedulers=schedulers)

    watches = [
        Watch(kind, itself),
        *(Watch(first, itself) for first in before),
        Watch(POD, _named_in(dialect)),
    ]
    if recorded:
        watches.append(Watch(GANG, _recorded_in(dialect)))
    if dialect is groups.VOLCANO:
        watches.append(Watch(VOLCANO_JOB, _of_job))
    indexes = (POD_INDEX, GANG_INDEX) if recorded else (POD_INDEX,)
    return Controller(f"podgroup {kind.group}", tuple(watches), observe, reconcile, indexes, SETTLE)


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    """Returns the patch of the status, if it has to change, and what comes with it."""
    group, status = observed.group.metadata, STATUS[observed.dialect](observed, now)
    kind, besides = observed.dialect.kind, BESIDES.get(observed.dialect)
    effects = [*lifecycle.restart(observed), *(besides(observed, now) if besides is not None else ())]
    if status is not None:
        where = "status" if kind.status else ""
        effects.insert(0, Patch(kind, group.namespace, group.name, {"status": status}, where))
    return effects


def _expected(group: Resource, caches: Caches) -> str:
    """Returns the schedulerName of pods that are still to come, by the Job of Volcano; "" without one."""
    owner = controller_of(group)
    if owner is None or not VOLCANO_JOB.matches(owner) or VOLCANO_JOB not in caches:
        return ""
    job = caches[VOLCANO_JOB].get(f"{group.metadata.namespace}/{owner.name}")
    return job.spec.scheduler_name if job is not None and job.metadata.uid == owner.uid else ""


def _of_job(change: Change) -> Iterable[str]:
    """Yields the group that Volcano's controllers make of a Job, by the names that its versions give it."""
    for job in change.objects:
        yield f"{job.metadata.namespace}/{job.metadata.name}-{job.metadata.uid}"
        yield f"{job.metadata.namespace}/{job.metadata.name}"


def _named_in(dialect: Dialect) -> Callable[[Change], Iterable[str]]:
    """Returns a function that yields the group of this dialect that the changed pod names."""

    def keys(change: Change) -> Iterable[str]:
        for pod in change.objects:
            if (group := named(pod)) is not None and group.dialect is dialect.naming:
                yield f"{pod.metadata.namespace}/{group.name}"

    return keys


def _recorded_in(dialect: Dialect) -> Callable[[Change], Iterable[str]]:
    """Returns a function that yields the groups of this dialect that the changed Gang was read from."""
    prefix = key_of(dialect, "")

    def keys(change: Change) -> Iterable[str]:
        for gang in change.objects:
            for source in sources(gang):
                if source.startswith(prefix):
                    yield source.removeprefix(prefix)

    return keys

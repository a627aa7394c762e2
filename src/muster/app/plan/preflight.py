"""What is known of a job before it is submitted.

The job is read as the live scheduler would read it, once: into the mirror of a cluster, of which only what is
around the job matters. Of pods that start independently, one for each shape is read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from muster.api import groups, kinds
from muster.api.base import Kind, Object
from muster.api.rates import Rates
from muster.app.plan import fit
from muster.app.plan.decisions import is_of
from muster.app.plan.mirror import SnapshotMirror
from muster.app.plan.proposal import propose
from muster.app.plan.risk import Stakes
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Gang, GangId
from muster.translate.group import Group
from muster.translate.queues import queue_changed
from muster.translate.risk import Risk
from muster.workloads import annotate
from muster.workloads.kubernetes.objects import JOBS
from muster.workloads.snapshot import typed

#: What decides, besides nodes, whether a job could ever start. Any: of many types
SURROUNDINGS: Final[tuple[Kind[Any], ...]] = (
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    kinds.CLUSTER_NETWORK_TOPOLOGY,
    kinds.LIMIT_RANGE,
    kinds.RUNTIME_CLASS,
    kinds.DEVICE_CLASS,
)
#: What decides which priority a job may have, and what of a queue or a namespace
SHARING: Final[tuple[Kind[Any], ...]] = (*kinds.QUEUES, kinds.RESOURCE_QUOTA)
#: What a file may have that gangs are read from
GANGS: Final = (*JOBS, *groups.OF_NAMED)
_PROPOSED: Final[tuple[Kind[Any], ...]] = (
    *(kinds.NODE, kinds.RESOURCE_CLAIM_TEMPLATE, kinds.RESOURCE_CLAIM),
    *(*SURROUNDINGS, *SHARING, *GANGS),
)


class Preflight:
    """What is known of a job before it is submitted, as far as muster may read the cluster."""

    def __init__(
        self,
        job: Sequence[Object],
        snapshot: SnapshotMirror,
        prices: Rates,
        denied: Collection[Kind[Any]] = (),  # Any: of many types
    ) -> None:
        """`job`: its objects. `snapshot`: the cluster. `denied`: the kinds of which it is not known."""
        self._embedded, self._prices, self._denied = snapshot.schedulers is None, prices, denied
        there = snapshot.as_it_is()
        own, refusals = propose(snapshot, typed(job, _PROPOSED, proposed=True), [], samples=True)
        self._events = fit.usable([*there, *snapshot.changes()])
        self._known, self._queues = [*snapshot.known.values()], snapshot.mirror.queues.all_counting()
        groups = [each for _, each in sorted(snapshot.mirror.groups.items()) if is_of(each, own)]
        self._gangs = [group.gang for group in groups]
        self._gangs += [Gang(gang, (), 0, 0.0, gate=gate) for gang, gate in sorted(refusals.items())]
        self._warnings = {_name(each.gang): each.warnings for each in groups if each.warnings}
        # the author of a suspended job resumes it, perhaps with other selectors, as Kueue and others do
        suspended = {_key(each["metadata"]) for each in job if annotate.suspended(each)}
        resting = {each.gang.id for each in groups if suspended and suspended & _jobs(each)}
        self._awake = [*_unlike(each for each in self._gangs if each.id not in resting).values()]

    @cached_property
    def never(self) -> list[str]:
        """Why parts of the job could never start on the cluster, and what would help; empty if all could.

        Nodes can be added to a real cluster, so only what cannot be honoured on any nodes is reported there.
        """
        if not self._embedded:
            return [*self.invalid().values()] if self._reads(*SURROUNDINGS) else []
        found = self.misfits()
        advice = self.advice() if found else None
        return [*found, f"simulated nodes would do: {advice}"] if advice else found

    @cached_property
    def barred(self) -> dict[str, str]:
        """Why queues never admit jobs of the file, by job name."""
        if not self._reads(*SURROUNDINGS, *SHARING):
            return {}
        events = [queue_changed(queue) for queue in self._queues]
        why = {alike: fit.barred(gang, events) for alike, gang in _unlike(self._gangs).items()}
        return {_name(gang): said for gang in self._gangs if (said := why[_nameless(gang)])}

    @cached_property
    def out_of_reach(self) -> dict[str, str]:
        """What jobs ask for that the cluster has in a form that muster does not give out, by job name."""
        return {_name(gang): said for gang in self._gangs if (said := fit.out_of_reach(gang, self._events))}

    def warnings(self, but: Collection[str] = ()) -> dict[str, str]:
        """What the scheduler will not do as a job says, by job name, such as a priority that it lowers.

        `but`: without these sentences.
        """
        if not self._reads(*SURROUNDINGS, *SHARING):
            return {}
        said = (
            (name, [each for each in all_of if each not in but]) for name, all_of in self._warnings.items()
        )
        return {name: "; ".join(those) for name, those in said if those}

    def risks(self, but: Collection[str] = (), *, capacity: Mapping[str, int] | None = None) -> list[Risk]:
        """What preemption may cost jobs, `but` those of these names. `capacity`: of the nodes, if known."""
        if not self._reads(kinds.PRIORITY_CLASS):
            return []
        stakes = Stakes.among(self._known, self._queues, self._prices, capacity)
        return stakes.of(gang for gang in self._gangs if _name(gang) not in but)

    def misfits(self, nodes: Iterable[NodeChanged] | None = None) -> list[str]:
        """One sentence for each part of the job that could never start on `nodes`; None: the cluster's."""
        events = self._events
        if nodes is not None:
            events = [*(each for each in events if not isinstance(each, NodeChanged)), *nodes]
        return fit.misfits(self._awake, events)

    def invalid(self) -> dict[str, str]:
        """Reasons by job name for jobs that are invalid on any nodes, such as an unknown PriorityClass."""
        return {_name(gang): sentence for gang in self._gangs for sentence in fit.invalid([gang])}

    def advice(self) -> str | None:
        """A `--nodes` value on which all of the job would start; None if none is found."""
        return fit.advice(self._awake, self._events)

    def _reads(self, *kinds: Kind[Any]) -> bool:  # Any: of many types
        return not any(kind in self._denied for kind in kinds)


def _nameless(gang: Gang) -> Gang:
    return replace(gang, id=GangId(""))


def _unlike(gangs: Iterable[Gang]) -> dict[Gang, Gang]:
    """Of gangs that differ in name only, the first: by what they have in common."""
    found: dict[Gang, Gang] = {}
    for gang in gangs:
        found.setdefault(_nameless(gang), gang)
    return found


def _name(gang: Gang) -> str:
    """The name of the job that a gang belongs to: its id begins with namespace and name."""
    return gang.id.split("/")[1]


def _key(metadata: Object) -> str:
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _jobs(group: Group) -> set[str]:
    """Namespace and name of the jobs that a group consists of; a pod is named after its job and place."""
    pods = (member.pod.key for member in group.members.values())
    return {"/".join(each.split("/")[:2]) for each in (group.gang.id, *pods)}

"""The risk of preemption for jobs before they are submitted, computed from the gangs that they will be."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from muster.api import kinds
from muster.api.base import Object
from muster.api.rates import Rates
from muster.api.scheduling import PriorityClass
from muster.app.plan.proposal import propose
from muster.app.plan.snapshot import SnapshotMirror
from muster.core.words.gang import Gang, GangId
from muster.translate.risk import Risk, risk
from muster.workloads.kubernetes.objects import JOBS
from muster.workloads.snapshot import Objects, typed

_KINDS = (kinds.PRIORITY_CLASS, *JOBS, kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS)


def risks(jobs: Sequence[Object], classes: Objects, rates: Rates) -> list[Risk]:
    """Returns the risk of each gang of the jobs; equal risks once. `classes`: the PriorityClasses."""
    snapshot = SnapshotMirror(None)
    snapshot.put_all(classes)
    proposed = typed(jobs, _KINDS, proposed=True)
    propose(snapshot, proposed, 0.0, [], samples=True)
    snapshot.events(0.0)
    known = chain(classes.items.values(), proposed.items.values())
    gangs = (group.gang for _, group in sorted(snapshot.mirror.groups.items()))
    return of_gangs(gangs, known, rates)


def of_gangs(gangs: Iterable[Gang], known: Iterable[object], rates: Rates) -> list[Risk]:
    """Returns the risk of each gang; equal risks once. `known`: objects that include the PriorityClasses."""
    above = [each for each in known if isinstance(each, PriorityClass)]
    alike = dict.fromkeys(replace(gang, id=GangId(""), submitted=0.0) for gang in gangs)
    found = (risk(gang, above, rates) for gang in alike)
    return list(dict.fromkeys(each for each in found if each is not None))

"""The risk of preemption for jobs before they are submitted, computed from the gangs that they will be."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from muster.api import kinds
from muster.api.base import Object
from muster.api.core_v1 import Node
from muster.api.muster_v1alpha1 import Queue
from muster.api.rates import Rates
from muster.api.scheduling import PriorityClass
from muster.app.plan.proposal import propose
from muster.app.plan.snapshot import SnapshotMirror
from muster.core.words.gang import Gang, GangId
from muster.core.words.gang import Queue as Rules
from muster.translate.nodes import capacity_of
from muster.translate.queues import queue_changed
from muster.translate.risk import Risk, risk
from muster.workloads.kubernetes.objects import JOBS
from muster.workloads.snapshot import Objects, typed

_KINDS = (kinds.PRIORITY_CLASS, *JOBS, kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS)


def risks(
    jobs: Sequence[Object], known: Objects, rates: Rates, capacity: Mapping[str, int] | None = None
) -> list[Risk]:
    """Returns the risk of each gang of the jobs. Equal risks are returned once.

    `known`: PriorityClasses, Queues and nodes. `capacity`: that of the nodes, if the caller has computed it.
    """
    classes = Objects()
    for (kind, *_), each in known.items.items():
        if kind is kinds.PRIORITY_CLASS:
            classes.add(kind, each)
    snapshot = SnapshotMirror(None)
    snapshot.put_all(classes)
    proposed = typed(jobs, _KINDS, proposed=True)
    propose(snapshot, proposed, 0.0, [], samples=True)
    snapshot.events(0.0)
    objects = chain(known.items.values(), proposed.items.values())
    gangs = (group.gang for _, group in sorted(snapshot.mirror.groups.items()))
    return of_gangs(gangs, objects, rates, capacity)


def of_gangs(
    gangs: Iterable[Gang], known: Iterable[object], rates: Rates, capacity: Mapping[str, int] | None = None
) -> list[Risk]:
    """Returns the risk of each gang. Equal risks are returned once. `known` and `capacity`: as in `risks`."""
    classes, queues, nodes = list[PriorityClass](), dict[str, Rules](), list[Node]()
    for each in known:
        match each:
            case PriorityClass():
                classes.append(each)
            case Queue():
                queues[each.metadata.name] = queue_changed(each).queue
            case Node():
                nodes.append(each)
    room = capacity_of(nodes if queues else ()) if capacity is None else capacity
    alike = dict.fromkeys(replace(gang, id=GangId(""), submitted=0.0) for gang in gangs)
    found = (risk(gang, classes, rates, queues, room) for gang in alike)
    return list(dict.fromkeys(each for each in found if each is not None))

"""What would start a waiting job, computed on demand by a scheduler in the process that asks.

A live scheduler explains only the first gangs of each queue so fully, with what time a cycle can spare. This
module explains any gang fully: a new scheduler receives the cluster's state, as for a plan, decides as the
live one would, and explains this gang. Its explanation is used if it agrees with the recorded one: the live
scheduler also knows what no object holds (a start that failed, the order of attempts).
"""

from dataclasses import replace

import msgspec

from muster.api.base import Object
from muster.api.muster_v1alpha1 import Gang
from muster.app.plan import fit
from muster.app.plan.snapshot import SnapshotMirror
from muster.app.views.job import JobView
from muster.app.views.observe import observe
from muster.core.cycle import Config, Scheduler
from muster.core.words.gang import GangId
from muster.kube.client import Client
from muster.kube.errors import Forbidden
from muster.translate.status import explained
from muster.workloads.snapshot import Objects


async def asked(
    client: Client, view: JobView, now: float, schedulers: frozenset[str] | None
) -> tuple[JobView, Object | None]:
    """The waiting job, its gangs with all their remedies; and the explanation if its pods are independent.

    A caller that may not read the whole cluster gets the recorded explanation.
    """
    if view.reason is None:
        return view, None
    try:
        objects = await observe(client)
    except Forbidden:
        return view, None
    return answered(view, objects, now, schedulers)


def answered(
    view: JobView, objects: Objects, now: float, schedulers: frozenset[str] | None
) -> tuple[JobView, Object | None]:
    """As `asked`, on `objects`, the current cluster. Explains the first waiting one of independent pods."""
    snapshot = SnapshotMirror(schedulers)
    snapshot.put_all(objects)
    core = Scheduler(Config(remedies=0))
    events = list(snapshot.events(now))
    for event in events:
        core.apply(event)
    core.decide(now)
    groups = snapshot.mirror.groups
    if view.gangs:
        ids = {(group.namespace, group.record): gang for gang, group in groups.items()}
        gangs = []
        for gang in view.gangs:
            name = ids.get((gang.metadata.namespace, gang.metadata.name))
            nodes = fit.other_nodes(groups[name].gang, events) if name and schedulers is None else None
            gangs.append(_answered(gang, name, core, _outside(view, nodes) if nodes else []))
        return replace(view, gangs=tuple(gangs)), None
    mine = {pod.metadata.uid for pod in view.pods if not pod.spec.node_name}
    waiting = (gang for gang, group in sorted(groups.items()) if not mine.isdisjoint(group.members))
    told = next((told for gang in waiting if (told := core.asked(gang)) is not None), None)
    agrees = told is not None and view.reason is not None and told.message in view.reason[1]
    return view, explained(told) if told is not None and agrees else None


def _outside(view: JobView, nodes: str) -> list[Object]:
    """The remedies for a gang that no change within the embedded cluster could start."""
    other = f"on other nodes: muster down, then muster up --detach {nodes}"
    return [
        {"change": other, "effect": "would start"},
        {"change": f"with muster cancel {view.name}", "effect": "would end"},
    ]


def _answered(gang: Gang, name: GangId | None, core: Scheduler, more: list[Object]) -> Gang:
    """The gang with its whole explanation, if that agrees with the recorded one.

    `more`: remedies for an explanation that has none.
    """
    told = gang.status.explanation
    explanation = core.asked(name) if name is not None else None
    if told is None or explanation is None or explanation.code.value != told["code"]:
        return gang
    whole = explained(explanation)
    whole["remedies"] = whole["remedies"] or more
    return msgspec.structs.replace(gang, status=msgspec.structs.replace(gang.status, explanation=whole))

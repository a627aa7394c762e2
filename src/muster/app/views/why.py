"""What would start a waiting job, computed on demand by a scheduler in the process that asks.

A live scheduler explains only the first gangs of each queue so fully, with what time a cycle can spare. This
module explains any gang fully: a new scheduler receives the cluster's state, as for a plan, decides as the
live one would, and explains this gang. Its explanation is used if it agrees with the recorded one: the live
scheduler also knows what no object holds (a start that failed, the order of attempts).
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from muster.api.base import Object
from muster.api.muster_v1alpha1 import Gang
from muster.app.plan import fit
from muster.app.plan.snapshot import SnapshotMirror
from muster.app.views.job import JobView
from muster.app.views.observe import observe
from muster.app.views.waiting import waits_for
from muster.core.cycle import Config, Scheduler
from muster.core.words.decisions import Explanation
from muster.kube.client import Client
from muster.kube.errors import Forbidden
from muster.translate.disclosure import EVERYTHING, Disclosure
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
    core = Scheduler(Config(remedies=0, steps=None))
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
            explanation = core.asked(name) if name is not None else None
            if explanation is not None:
                gang = _answered(gang, explanation, snapshot, _outside(view, nodes) if nodes else [])
            gangs.append(gang)
        return replace(view, gangs=tuple(gangs), reason=_named(view.reason, gangs)), None
    mine = {pod.metadata.uid for pod in view.pods if not pod.spec.node_name}
    waiting = (gang for gang, group in sorted(groups.items()) if not mine.isdisjoint(group.members))
    told = next((told for gang in waiting if (told := core.asked(gang)) is not None), None)
    if told is None or view.reason is None:
        return view, None
    said = view.reason[1]
    agrees = told.message in said or _hidden(told.message, view.namespace, snapshot) in said
    return view, explained(told, EVERYTHING) if agrees else None


def _hidden(message: str, namespace: str, snapshot: SnapshotMirror) -> str:
    """The message as the live scheduler writes it if it names no gangs of other namespaces."""
    return Disclosure(snapshot.mirror.names).text(message, {namespace})


def _named(reason: tuple[str, str] | None, gangs: Sequence[Gang]) -> tuple[str, str] | None:
    """Why the job waits, as its first waiting gang says now."""
    told = waits_for((), gangs)
    return told if told is not None and reason is not None and told[0] == reason[0] else reason


def _outside(view: JobView, nodes: str) -> list[Object]:
    """The remedies for a gang that no change within the embedded cluster could start."""
    other = f"on other nodes: muster down, then muster up --detach {nodes}"
    return [
        {"change": other, "effect": "would start"},
        {"change": f"with muster cancel {view.name}", "effect": "would end"},
    ]


def _answered(gang: Gang, explanation: Explanation, snapshot: SnapshotMirror, more: list[Object]) -> Gang:
    """The gang with its whole explanation, if that agrees with the recorded one.

    If the recorded reason only lacks names of other namespaces' gangs, it gets them. `more`: remedies
    for an explanation that has none.
    """
    told, reason = gang.status.explanation, gang.status.reason
    if told is None or explanation.code.value != told["code"]:
        return gang
    hidden = _hidden(explanation.message, gang.metadata.namespace, snapshot)
    if reason is not None and reason.message == hidden:
        reason = msgspec.structs.replace(reason, message=explanation.message)
    whole = explained(explanation, EVERYTHING)
    whole["remedies"] = whole["remedies"] or more
    status = msgspec.structs.replace(gang.status, explanation=whole, reason=reason)
    return msgspec.structs.replace(gang, status=status)

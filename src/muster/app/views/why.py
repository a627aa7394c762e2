"""What would start a waiting job, computed on demand by a scheduler in the process that asks.

A live scheduler explains only the first gangs of each queue so fully, with what time a cycle can spare. This
module explains any gang fully: it asks a snapshot, whose scheduler decides as the live one would. The answer
is used if it agrees with the recorded one: the live scheduler also knows what no object holds (a start that
failed, the order of attempts).
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from muster.api.base import Object
from muster.api.muster_v1alpha1 import Gang
from muster.app.snapshot import Snapshot
from muster.app.views.job import JobView
from muster.app.views.waiting import waits_for
from muster.core.words.decisions import Explanation
from muster.kube.client import Client
from muster.kube.errors import Forbidden
from muster.translate.disclosure import EVERYTHING
from muster.translate.status import explained


async def asked(
    client: Client, view: JobView, now: float, schedulers: frozenset[str] | None
) -> tuple[JobView, Object | None]:
    """The waiting job, its gangs with all their remedies; and the explanation if its pods are independent.

    A caller that may not read the whole cluster gets the recorded explanation.
    """
    if view.reason is None:
        return view, None
    try:
        snapshot = (await Snapshot.observe(client, schedulers, now=now)).require()
    except Forbidden:
        return view, None
    return answered(view, snapshot, embedded=schedulers is None)


def answered(view: JobView, snapshot: Snapshot, *, embedded: bool) -> tuple[JobView, Object | None]:
    """As `asked`, on the current cluster. Explains the first waiting one of independent pods.

    `embedded`: the cluster's nodes are those that its user has named.
    """
    if view.gangs:
        gangs = []
        for record in view.gangs:
            gang = snapshot.gang(record.metadata.namespace, record.metadata.name)
            explanation = snapshot.why(gang.id) if gang is not None else None
            if gang is not None and explanation is not None:
                nodes = snapshot.other_nodes(gang) if embedded else None
                record = _answered(record, explanation, snapshot, _outside(view, nodes) if nodes else [])
            gangs.append(record)
        return replace(view, gangs=tuple(gangs), reason=_named(view.reason, gangs)), None
    waiting = snapshot.waiting({pod.metadata.uid for pod in view.pods if not pod.spec.node_name})
    told = next((told for gang in waiting if (told := snapshot.why(gang)) is not None), None)
    if told is None or view.reason is None:
        return view, None
    said = view.reason[1]
    agrees = told.message in said or snapshot.disclosed(told.message, view.namespace) in said
    return view, explained(told, EVERYTHING) if agrees else None


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


def _answered(gang: Gang, explanation: Explanation, snapshot: Snapshot, more: list[Object]) -> Gang:
    """The gang with its whole explanation, if that agrees with the recorded one.

    If the recorded reason only lacks names of other namespaces' gangs, it gets them. `more`: remedies
    for an explanation that has none.
    """
    told, reason = gang.status.explanation, gang.status.reason
    if told is None or explanation.code.value != told["code"]:
        return gang
    hidden = snapshot.disclosed(explanation.message, gang.metadata.namespace)
    if reason is not None and reason.message == hidden:
        reason = msgspec.structs.replace(reason, message=explanation.message)
    whole = explained(explanation, EVERYTHING)
    whole["remedies"] = whole["remedies"] or more
    status = msgspec.structs.replace(gang.status, explanation=whole, reason=reason)
    return msgspec.structs.replace(gang, status=status)

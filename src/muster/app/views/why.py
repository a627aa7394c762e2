"""What would start a waiting job, computed on demand by a scheduler in the process that asks.

A live scheduler explains only the first gangs of each queue so fully, with what time a cycle can spare. This
module explains any gang fully: it asks a snapshot, whose scheduler decides as the live one would. The answer
is used if it agrees with the recorded one: the live scheduler also knows what no object holds (a start that
failed, the order of attempts).
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.api.core_v1 import PodSpec, ResourceQuota
from muster.api.fields import convert
from muster.api.muster_v1alpha1 import Gang
from muster.app.snapshot import Snapshot
from muster.app.views.job import JobView, State
from muster.app.views.objects import Objects
from muster.app.views.waiting import waits_for
from muster.core.words.decisions import Explanation
from muster.kube.client import Client
from muster.kube.errors import Forbidden
from muster.translate import quotas
from muster.translate.disclosure import EVERYTHING
from muster.translate.status import explained
from muster.workloads.demand import pod_sets


async def asked(
    client: Client, there: Objects, view: JobView, now: float, schedulers: frozenset[str] | None
) -> tuple[JobView, Object | None]:
    """The waiting job, its gangs with all their remedies; and the explanation if its pods are independent.

    `there`: the objects that the job was found among, which are not read again.
    A caller that may not read the whole cluster gets the recorded explanation.
    """
    if view.reason is None:
        return view, None
    known = {} if there.namespace else there.by_kind()
    try:
        snapshot = (await Snapshot.observe(client, schedulers, now=now, known=known)).require()
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


async def uncreated(client: Client, view: JobView) -> list[str]:
    """Why pods of a job whose pods are independent do not exist: quotas with too little left for one more.

    A caller that may not list ResourceQuotas is told nothing.
    """
    if view.gangs or view.state.finished or view.kind not in (kinds.JOB, kinds.JOBSET):
        return []
    found = await Snapshot.observe(client, None, [kinds.RESOURCE_QUOTA])
    here = (each for each in found.objects.items.values() if isinstance(each, ResourceQuota))
    return short_of_quota(view, [each for each in here if each.metadata.namespace == view.namespace])


def short_of_quota(view: JobView, there: Sequence[ResourceQuota]) -> list[str]:
    """Why the job lacks pods: a line for each of these ResourceQuotas that has no room for one more."""
    named = {"apiVersion": view.kind.api_version, "kind": view.kind.kind}
    sets = [*pod_sets({**msgspec.to_builtins(view.resource), **named})]
    active = sum(not pod.terminal for pod in view.pods)
    missing = min(sum(each.count for each in sets), view.wanted - view.succeeded) - active
    if view.state is State.SUSPENDED or missing <= 0 or any(each.stage for each in sets):
        return []
    specs = [convert({"containers": [], **(each.template.get("spec") or {})}, PodSpec) for each in sets]
    lines = list[str]()
    for quota in there:
        left = dict(quotas.room(quota, view.pods)[0])
        asked = [dict(amounts) for spec in specs for _, amounts in quotas.charged([quota], spec)]
        some = sorted({r for amounts in asked for r, amount in amounts.items() if amount > left[r]})
        if some:
            what = (
                f"ResourceQuota {quota.metadata.name} has too little {' and '.join(some)} left for one more"
            )
            lines.append(f"{missing} of its pods cannot be created: {what}")
    return lines


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

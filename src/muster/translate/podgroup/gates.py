"""Determines why a gang of PodGroups must not start yet."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from muster.api import groups
from muster.api.base import Resource, is_subdomain
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.core.words.gang import MOST_PLACES, Code, Gate
from muster.translate import ganggroup, marks
from muster.translate.described import Described
from muster.translate.identity import GroupKey
from muster.translate.podgroup.facts import Said
from muster.translate.podgroup.reading import Reading, State
from muster.translate.priority import chosen
from muster.translate.quotas import forbidden
from muster.translate.world import World


def gate_of(key: GroupKey, one: Reading, world: World) -> Gate | None:
    wanted = one.wanted - one.awaited
    gate = _refused(one, wanted, world) or _held(one) or _missing(key, one, wanted)
    if gate is None or not one.several:
        return gate
    return replace(gate, message=f"PodGroup {'/'.join(one.name)}: {gate.message}")


def orphaned(key: GroupKey, one: Reading) -> tuple[str, ...]:
    """Returns the warning of a gang whose PodGroup was deleted under its bound pods, if it was."""
    if one.group is not None or not one.members.filled:
        return ()
    return (f"{_absent(key)}: bound pods continue, new pods wait for it",)


def unheld(one: Reading, world: World) -> tuple[str, ...]:
    """Returns the warning of a gang for whose pods a cluster holds no quota, although it asks for that."""
    if world.schedulers is None or one.asked is None or not one.asked.total:
        return ()
    held = "spec.totalResources is held by the embedded cluster only"
    return (f"{held}: the API server of a cluster charges a ResourceQuota for pods that exist",)


def disagreement(readings: Sequence[Reading], known: Mapping[ganggroup.Name, Resource]) -> Gate | None:
    """Returns why a PodGroup with a list is in no GangGroup, or where those of one contradict each other."""
    for one in readings:
        if one.group is not None and (why := ganggroup.error(one.group, known)):
            return Gate(Code.INVALID, f"{_called(one.group)}: {why}")
    together = sum(one.asked.minimum for one in readings if one.asked is not None)
    if len(readings) > 1 and together > MOST_PLACES:
        message = f"its PodGroups need {together} pods together; a gang has at most {MOST_PLACES}"
        return Gate(Code.INVALID, message)
    queues = sorted({one.queue for one in readings if one.queue})
    if len(queues) > 1:
        message = f"its PodGroups name different queues ({', '.join(queues)}), and a gang waits in one"
        return Gate(Code.INVALID, message)
    return None


def _called(group: Resource) -> str:
    return f"pod {group.by}" if isinstance(group, Described) else f"PodGroup {group.key}"


def _refused(one: Reading, wanted: int, world: World) -> Gate | None:
    group = one.group
    if group is not None:
        if gate := marks.refusal(group.metadata):
            return gate
        asked = one.asked
        assert asked is not None, "a group that pods name says what it asks for"
        if asked.refusal:
            return Gate(Code.INVALID, asked.refusal)
        if asked.tasks and one.several:
            message = f"{asked.field_of_tasks} is not supported in a GangGroup; leave it out, or {GROUPS}"
            return Gate(Code.INVALID, message)
        if isinstance(found := chosen([group.metadata], world, asked), Gate):
            return found
        if wanted < 0 or asked.minimum > MOST_PLACES:
            text, key = f"{asked.minimum}", asked.field
            if isinstance(group, Described):
                text, key = repr(group.minimum[:80]), f"pod {group.by}: {groups.DESCRIBED.minimum[-1]}"
            most = "" if wanted < 0 else f", at most {MOST_PLACES}"
            return Gate(Code.INVALID, f"{key} is {text}; write how many pods must run together{most}")
    if not is_subdomain(one.name[1]):
        where = "a pod names a group of its own namespace by name only"
        return Gate(Code.INVALID, f"{one.name[1][:80]!r} is no name of a {one.dialect.kind.kind}; {where}")
    if others := one.schedulers:
        message = f"some of its pods have schedulerName: {', '.join(others)}; write one name on all of them"
        return Gate(Code.INVALID, message)
    if one.there > MOST_PLACES:
        return Gate(Code.INVALID, f"more than {MOST_PLACES} pods name it; make several groups of them")
    suspects = (
        names
        for said, names in one.said.items()
        if not said.bound
        and (said.refusal or world.uncreated or (group is not None and _quarrel(group, "", said)))
    )
    for pod, said in one.ready(chain.from_iterable(suspects)):
        if group is not None and (message := _quarrel(group, pod.metadata.name, said)):
            return Gate(Code.INVALID, message)
        gate = said.refusal or forbidden(pod, world)
        if gate is not None:
            return Gate(gate.code, f"pod {pod.metadata.name}: {gate.message}")
    return None


def _quarrel(group: Resource, pod: str, said: Said) -> str:
    """Returns how a pod contradicts the statements that count for its gang; "" if it does not."""
    if not ganggroup.agree(group, said.groups):
        whose, there = f"PodGroup {group.key}", "it there"
        if isinstance(group, Described):
            whose, there = f"pod {group.by}, the oldest,", "the same on all"
        return f"pod {pod} says in {GROUPS} what {whose} does not; write {there}"
    if isinstance(group, Described) and said.minimum not in ("", group.minimum):
        what = f"pod {pod} says {said.minimum[:80]!r} in {groups.DESCRIBED.minimum[-1]}"
        return f"{what}, and pod {group.by}, the oldest, {group.minimum!r}; write the same on all"
    return ""


def _absent(key: GroupKey) -> str:
    kinds = [row.kind for row in groups.SHARING[key.dialect]]
    where = " or ".join(kind.group for kind in kinds)
    return f"there is no {kinds[0].kind} {key.name} of {where}, which its pods name"


def _held(one: Reading) -> Gate | None:
    """Returns the hold of the PodGroup, or, if pods describe the gang, of any of its pods."""
    if isinstance(one.group, Described):
        return next((said.hold for said in one.said if said.hold is not None), None)
    return marks.hold(one.group.metadata) if one.group is not None else None


def _lacking(one: Reading, task: str, least: int) -> Gate | None:
    there = one.of_task(task)
    if there >= least:
        return None
    return Gate(Code.MEMBERS_MISSING, f"{there} of {least} pods of its task {task} exist")


def _missing(key: GroupKey, one: Reading, wanted: int) -> Gate | None:
    there, gated = one.there, one.count[State.GATED]
    if one.group is None:
        message = f"{_absent(key)} ({there + gated} so far)"
        return Gate(Code.MEMBERS_MISSING, message)
    if there >= wanted:
        return next(filter(None, (_lacking(one, *task) for task in one.tasks)), None)
    if there + gated >= wanted:
        kept = f"{gated} of its {there + gated} pods"
        return Gate(Code.GATED, f"scheduling gates keep {kept}; {wanted} must have none")
    return Gate(Code.MEMBERS_MISSING, f"{there} of {wanted} pods exist")

"""A plan's decisions, with the names of docs/reference/names.md."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from muster.api.base import Object
from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Evict, Explanation
from muster.core.words.decisions import Decision as Decided
from muster.core.words.gang import Code, GangId, Gate, Place
from muster.core.world.gangs import stands
from muster.translate.disclosure import EVERYTHING
from muster.translate.group import Group
from muster.translate.status import explained

#: Proposed gangs at most for which all remedies are computed.
ASKED: Final = 20


class Outcome(StrEnum):
    PLACE = "place"
    PREEMPT = "preempt"
    WAIT = "wait"
    INVALID = "invalid"


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """The work that is lost by evicting the victims (docs/concepts/preemption.md).

    Attributes:
        gpu_seconds: GPU-seconds; CPU-seconds for victims without GPUs.
        gpu_hours_lost: The same in GPU-hours, a decimal number; `""` for victims without GPUs.
        cost_lost: The same in money, a decimal number; `""` if no price is known.
    """

    gpu_seconds: float = 0.0
    gpu_hours_lost: str = ""
    cost_lost: str = ""


class Delay(msgspec.Struct, frozen=True):
    """A gang of the cluster that would start later.

    Attributes:
        gang: `namespace/name`.
        by: Seconds; None if its start with the proposal is not known.
    """

    gang: str
    by: float | None


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome for one gang.

    `msgspec.json.encode(decision)` gives the JSON that `muster plan -o json` prints for it.

    Attributes:
        gang: `namespace/name`, and `/stage` if its group has several.
        outcome: `place`, `preempt`, `wait` or `invalid`.
        assignments: `namespace/pod` → node. A pod that does not exist yet is `namespace/group/podset-index`.
        victims: Pods to evict, `namespace/pod`.
        cost: The work of the victims that is lost.
        reason: The explanation (docs/reference/names.md); None for a gang that is placed.
        delays: Gangs of the cluster that would start later.
    """

    gang: str
    outcome: Outcome
    assignments: dict[str, str] = {}
    victims: list[str] = []
    cost: Cost = Cost()
    reason: Object | None = None
    delays: list[Delay] = []


def decisions(
    decided: Sequence[Decided],
    served: Iterable[GangId],
    core: Scheduler,
    groups: Mapping[GangId, Group],
    own: set[str],
    refusals: Mapping[GangId, Gate],
) -> tuple[list[Decision], int]:
    """The decisions, proposed gangs first, and how many of them are about proposed gangs."""
    told = Told(decided)
    states = core.world.gangs
    # Gangs that lack nothing are last.
    order = dict.fromkeys([*(gang for gang in served if gang in groups), *sorted(groups)])
    ours = {gang for gang in order if is_of(groups[gang], own)}
    first, rest, asked = [], [], 0
    for gang, gate in refusals.items():
        first.append(_decision_of(gang, {}, told, Explanation(gate.code, "gate", gate.message)))
    for gang in order:
        state = states.get(gang)
        reason = state.explanation if state is not None else None
        if gang in ours:
            if reason is not None and asked < ASKED:
                asked += 1
                reason = core.asked(gang)
            reason = reason or _gated(groups[gang])
            first.append(_decision_of(gang, groups, told, reason))
        elif gang in told.assigned or (reason is not None and state is not None and not stands(state)):
            rest.append(_decision_of(gang, groups, told, reason))
    return [*first, *rest], len(first)


def _gated(group: Group) -> Explanation | None:
    """Why a gated gang must not start; None if it has no gate or has a bound pod.

    The scheduler explains nothing about a gang without places.
    """
    gate = group.gang.gate
    if gate is None or any(member.pod.spec.node_name for member in group.members.values()):
        return None
    return Explanation(gate.code, "gate", gate.message)


class Told:
    """Decisions, grouped by the gang that they benefit."""

    def __init__(self, decided: Iterable[Decided]) -> None:
        self.assigned: dict[GangId, dict[Place, str]] = {}
        self.evictions: dict[GangId, list[Evict]] = {}
        for decision in decided:
            match decision:
                case Assign(gang=gang, nodes=nodes):
                    self.assigned.setdefault(gang, {}).update(nodes)
                case Evict(beneficiary=gang):
                    self.evictions.setdefault(gang, []).append(decision)


def outcome_of(told: Told, gang: GangId, reason: Explanation | None) -> Outcome:
    if gang in told.evictions:
        return Outcome.PREEMPT
    if gang in told.assigned or reason is None:
        return Outcome.PLACE
    return Outcome.INVALID if reason.code is Code.INVALID else Outcome.WAIT


def is_of(group: Group, uids: set[str]) -> bool:
    return group.source.uid in uids or not uids.isdisjoint(group.members)


def _decision_of(
    gang: GangId, groups: Mapping[GangId, Group], told: Told, reason: Explanation | None
) -> Decision:
    evictions, assigned = told.evictions.get(gang, []), told.assigned.get(gang)
    return Decision(
        gang=str(gang),
        outcome=outcome_of(told, gang, reason),
        assignments=_assignments(groups[gang], assigned) if assigned else {},
        victims=sorted({pod for evict in evictions for pod in _victims(evict, groups)}),
        cost=Cost(sum(evict.work_lost for evict in evictions)),
        # an assigned gang may still have an explanation, because its victims have not left yet
        reason=None if reason is None or evictions or assigned else explained(reason, EVERYTHING),
    )


def _assignments(group: Group, assigned: Mapping[Place, str]) -> dict[str, str]:
    pods = {member.place: member.pod.key for member in group.members.values()}
    template = f"{group.namespace}/{group.source.name}"
    return {
        pods.get(place, f"{template}/{place.pod_set}-{place.index}"): assigned[place]
        for place in sorted(assigned)
    }


def _victims(evict: Evict, groups: Mapping[GangId, Group]) -> Iterator[str]:
    for victim in evict.victims:
        group = groups.get(victim.gang)
        for uid, member in group.members.items() if group is not None else ():
            if member.pod.spec.node_name and (not victim.pods or uid in victim.pods):
                yield member.pod.key

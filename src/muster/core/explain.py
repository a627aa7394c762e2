"""Why a gang waits: one code, the numbers that show it, and who holds what it lacks.

The code is the first that applies, in the order of docs/names.md. The totals behind
`InsufficientCapacity` are those of nodes that the gang's pods may use at all, so "8 are free" never
means eight on nodes that they cannot use. An explanation depends only on what is wanted and on the
ledger; equal wants therefore share one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from muster.core.decisions import Explanation, PodSetExplanation
from muster.core.eligibility import Eligibility, Obstacle
from muster.core.exact import Answer, Verdict
from muster.core.gang import Code, GangId
from muster.core.gangs import GangState
from muster.core.ledger import Ledger
from muster.core.mismatch import mismatch
from muster.core.nodes import PODS, Bools, Nodes
from muster.core.placement import Part, Trial, Want
from muster.core.slots import Slots, Vector

#: Gangs named as blockers, largest holders first.
BLOCKERS: Final = 5

_LIMITS: Final = (
    (Obstacle.SELECTOR, "selector"),
    (Obstacle.AFFINITY, "affinity"),
    (Obstacle.TAINT, "taint"),
    (Obstacle.CORDON, "cordon"),
    (Obstacle.NOT_READY, "notReady"),
)


class Explainer:
    """Explains wants against the ledger as it is now."""

    def __init__(self, nodes: Nodes, eligibility: Eligibility, slots: Slots, ledger: Ledger) -> None:
        self._nodes = nodes
        self._eligibility = eligibility
        self._slots = slots
        self._ledger = ledger

    def explain(self, want: Want, gangs: Iterable[GangState], verdict: Verdict | None = None) -> Explanation:
        """Why the minimum of this want cannot be placed. `gangs` are searched for blockers.

        `verdict` is what is known beyond greedy placement.
        """
        return (
            _impossible(want)
            or self._nothing_matches(want)
            or self._insufficient(want, gangs)
            or self._fragmented(want, gangs, verdict)
        )

    def _nothing_matches(self, want: Want) -> Explanation | None:
        """A pod that is needed fits no node, even if it were empty (and ready, and not cordoned)."""
        hopeless = [part for part in want.parts if not self._ever(part)]
        if not any(part.need for part in hopeless) and len(hopeless) < len(want.parts):
            return None
        part = next((part for part in hopeless if part.need), hopeless[0])
        sets = self._pod_sets(want)
        mask = self._eligibility.of(part.shape)
        matching = mask.matching
        present = int(np.count_nonzero(mask.obstacles & Obstacle.GONE == 0))
        if not present:
            message = "there is no node"
        elif not matching.any():
            message = f"none of {nodes_(present)} matches: {mismatch(part.shape, self._nodes.facts.values())}"
        else:
            message = self._too_large(part, matching)
        return Explanation(Code.NOTHING_MATCHES, "placement", _named(want, part, message), sets)

    def _ever(self, part: Part) -> bool:
        return bool(self._slots.when_empty(part.shape, self._eligibility.of(part.shape).matching).any())

    def _too_large(self, part: Part, matching: Bools) -> str:
        pod = self._asked(self._slots.of(part.shape))
        for resource, row, asked in pod:
            largest = int(self._nodes.capacity(row)[matching].max(initial=0))
            if largest < asked:
                has = f"the largest matching node has {bare(resource, largest)}"
                return f"a pod asks {show(resource, asked)}; {has}"
        together = " and ".join(show(resource, asked) for resource, _, asked in pod if resource != PODS)
        return f"no matching node has {together} together"

    def _insufficient(self, want: Want, gangs: Iterable[GangState]) -> Explanation | None:
        """Of some resource less is free, all usable nodes together, than the minimum takes."""
        worst: tuple[float, str, int, int, Bools] | None = None
        for resource, row in self._nodes.resources.items():
            demanded = self._at_least(want, row)
            if not demanded:
                continue
            usable = self._usable(want, row)
            free = int(np.maximum(self._nodes.free(row)[usable], 0).sum(dtype=np.int64))
            if demanded > free:
                short = free / demanded
                if worst is None or (short, resource) < worst[:2]:
                    worst = (short, resource, demanded, free, usable)
        if worst is None:
            return None
        _, resource, demanded, free, usable = worst
        row = self._nodes.resources[resource]
        capacity = int(self._nodes.capacity(row)[usable].sum(dtype=np.int64))
        message = f"{self._sum(want, resource, row, demanded)}; "
        serving = int(np.count_nonzero(usable))
        if not serving:
            message += "no matching node is ready and uncordoned"
        else:
            message += f"{are(resource, free)} free"
        if serving and capacity < demanded:
            whole = (
                f"all {serving} matching nodes together have" if serving > 1 else "the only matching node has"
            )
            message += f", {whole} {bare(resource, capacity)}"
        return Explanation(
            Code.INSUFFICIENT_CAPACITY,
            "placement",
            message,
            self._pod_sets(want),
            _holders(gangs, resource, self._names(usable)),
        )

    def _at_least(self, want: Want, row: int) -> int:
        """What the minimum takes of a resource, whichever places it is made of."""
        amounts = [dict(self._nodes.demand(part.shape.requests)).get(row, 0) for part in want.parts]
        needed = sum(part.need * amount for part, amount in zip(want.parts, amounts, strict=True))
        rest = want.need - sum(part.need for part in want.parts)
        choice = [a for part, a in zip(want.parts, amounts, strict=True) if part.count > part.need]
        return needed + rest * min(choice, default=0)

    def _usable(self, want: Want, row: int) -> Bools:
        usable = np.zeros(len(self._nodes), np.bool_)
        for part in want.parts:
            if row in dict(self._nodes.demand(part.shape.requests)):
                usable |= self._eligibility.of(part.shape).eligible
        return usable

    def _sum(self, want: Want, resource: str, row: int, demanded: int) -> str:
        """ "16 GPUs asked as 4 × 4"."""
        terms = []
        for part in want.parts:
            amount = dict(self._nodes.demand(part.shape.requests)).get(row, 0)
            if amount and part.need:
                terms.append(f"{part.need} × {bare(resource, amount)}")
        if resource == PODS or not terms:
            return f"{show(resource, demanded)} asked"
        return f"{show(resource, demanded)} asked as {' + '.join(terms)}"

    def _fragmented(self, want: Want, gangs: Iterable[GangState], verdict: Verdict | None) -> Explanation:
        """Totals suffice, and still there is no placement, or none was found."""
        sets = self._pod_sets(want)
        short = next((pod_set for pod_set in sets if pod_set.fits < pod_set.wanted), sets[0])
        part = next(part for part in want.parts if part.pod_set == short.name)
        vector = self._slots.of(part.shape)
        asked_by_pod = self._asked(vector)
        limiting = [item for item in asked_by_pod if item[0] in short.limited_by] or asked_by_pod[:1]
        resource, row, asked = limiting[0]
        usable = self._usable(want, row)
        free = int(np.maximum(self._nodes.free(row)[usable], 0).sum(dtype=np.int64))
        holding = int(np.count_nonzero(vector.slots))
        pod = (
            " and ".join(show(name, amount) for name, _, amount in limiting)
            if len(limiting) > 1
            else bare(resource, asked)
        )
        if not holding:
            but = f"no node has {pod} free at once"
        elif vector.total == holding and len(want.parts) == 1:
            but = f"only {nodes_(holding)} {'has' if holding == 1 else 'have'} {pod} free at once"
        else:
            but = f"in pieces that take only {short.fits} of {short.wanted} pods"
        asks = self._sum(want, resource, row, self._at_least(want, row))
        message = f"{asks}; {are(resource, free)} free, but {but}{_certainty(want, verdict)}"
        return Explanation(
            Code.FRAGMENTED,
            "placement",
            _named(want, part, message),
            sets,
            _holders(gangs, resource, self._names(usable)),
        )

    def _pod_sets(self, want: Want) -> tuple[PodSetExplanation, ...]:
        """How far each part gets, in the order of a placement."""
        mark = self._ledger.mark()
        trial = Trial(want.parts, None, self._ledger, self._slots)
        trial.fill_minimum(want.need)
        wanted = [max(part.need, n) for part, n in zip(want.parts, trial.placed, strict=True)]
        missing = want.need - sum(wanted)
        for p, part in enumerate(want.parts):
            more = min(max(missing, 0), part.count - wanted[p])
            wanted[p] += more
            missing -= more
        sets = tuple(
            PodSetExplanation(
                part.pod_set,
                wanted[p],
                trial.placed[p],
                self._limits(self._slots.of(part.shape)) if trial.placed[p] < wanted[p] else {},
            )
            for p, part in enumerate(want.parts)
            if wanted[p]
        )
        self._ledger.rollback(mark)
        return sets

    def _limits(self, vector: Vector) -> Mapping[str, int]:
        """Nodes by what keeps the next pod off them; each node counts once."""
        obstacles = self._eligibility.of(vector.shape).obstacles
        left = obstacles & Obstacle.GONE == 0
        limits: dict[str, int] = {}

        def count(name: str, nodes: Bools) -> None:
            nonlocal left
            number = int(np.count_nonzero(nodes & left))
            if number:
                limits[name] = number
            left &= ~nodes

        for flag, name in _LIMITS:
            count(name, obstacles & flag != 0)
        for resource, row, amount in self._asked(vector):
            count(resource, self._nodes.free(row) < amount)
        return limits

    def _asked(self, vector: Vector) -> list[tuple[str, int, int]]:
        """(resource, row, amount) of one pod: the scarce resource first, then by name, `pods` last."""
        asked = [(self._nodes.resource(row), row, amount) for row, amount in vector.demand]
        return sorted(asked, key=lambda item: (item[1] != vector.scarce, item[0] == PODS, item[0]))

    def _names(self, mask: Bools) -> set[str]:
        return {self._nodes.names[column] for column in np.flatnonzero(mask).tolist()}


def _impossible(want: Want) -> Explanation | None:
    size = sum(part.count for part in want.parts)
    for part in want.parts:
        if part.need > part.count:
            message = f"{part.need} more pods are required, but only {part.count} more can be"
            return Explanation(Code.INVALID, "placement", _named(want, part, message))
    if want.need > size:
        return Explanation(
            Code.INVALID, "placement", f"{want.need} more pods are required, but only {size} more can be"
        )
    return None


def _certainty(want: Want, verdict: Verdict | None) -> str:
    """Whether another placement may exist. For pods of one shape greedy placement leaves no doubt."""
    if verdict is None or len({part.shape for part in want.parts}) == 1:
        return ""
    return _CERTAINTY[verdict.answer]


_CERTAINTY: Final[Mapping[Answer, str]] = {
    Answer.NONE_EXISTS: "; no placement exists",
    Answer.NONE_LEFT: "; an exhaustive search found none",
    Answer.NONE_FOUND: "; none was found within the search budget",
}


def _holders(gangs: Iterable[GangState], resource: str, nodes: set[str]) -> tuple[GangId, ...]:
    """The gangs that use most of a resource and use some of these nodes."""
    holders = (s for s in gangs if s.usage[resource] > 0 and not nodes.isdisjoint(s.nodes))
    return tuple(s.id for s in sorted(holders, key=lambda s: (-s.usage[resource], s.id))[:BLOCKERS])


def _named(want: Want, part: Part, message: str) -> str:
    return f"{part.pod_set}: {message}" if len(want.parts) > 1 else message


def nodes_(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def show(resource: str, amount: int) -> str:
    """ "16 GPUs", "1.5 CPUs", "2 GiB memory": an amount with its unit, as people say it."""
    number = bare(resource, amount)
    if resource == "cpu":
        return f"{number} {'CPU' if amount == 1000 else 'CPUs'}"
    if resource == PODS:
        return f"{number} {'pod' if amount == 1 else 'pods'}"
    if resource.endswith("/gpu"):
        return f"{number} {'GPU' if amount == 1 else 'GPUs'}"
    return f"{number} {resource}"


def bare(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for unit, size in (("TiB", 2**20), ("GiB", 2**10)):
            if amount >= size:
                return f"{amount / size:.4g} {unit}"
        return f"{amount} MiB"
    return str(amount)


def are(resource: str, amount: int) -> str:
    single = resource not in _BYTES and amount == (1000 if resource == "cpu" else 1)
    return f"{bare(resource, amount)} {'is' if single else 'are'}"


_BYTES: Final = ("memory", "ephemeral-storage", "storage")

"""Why a demand does not fit: a function per code, which returns an explanation, or None if it does not apply.

`NEVER` holds what would keep it off an empty cluster, `NOW` the rest; each in the order of
docs/reference/names.md. `kept_by_queue` adds numbers to a queue's refusal (`queueing`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from muster.core.demand import Demand, Part, Rules
from muster.core.explain import devices
from muster.core.explain.case import BLOCKERS, Case
from muster.core.placement import Infeasible, Reason
from muster.core.placement.subgroups import pieces
from muster.core.placement.topology import Nearest
from muster.core.placement.topology.rules import resolve
from muster.core.words.amounts import PODS, are, bare, nodes_, show
from muster.core.words.decisions import Explanation, PodSetExplanation
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Code, GangId, NodeName, Shape, Strategy
from muster.core.world.eligibility import Obstacle, obstacle, untolerated
from muster.core.world.nodes import Bools
from muster.core.world.queues import Queues
from muster.names import GPU, GPU_SHARE

#: Values of labels, and taints, that are named, at most.
SHOWN: Final = 3


def invalid(case: Case) -> Explanation | None:
    """Invalid: more pods are required than the gang has places, or a required topology layer does not exist.

    Other invalid gangs have a gate.
    """
    demand, error = case.demand, ""
    if demand.rules is not None:
        layers = case.fit.topology_placement.topology.layers
        found = (
            (name, resolve(each.gather, each.exclusive, layers).error) for name, each in demand.rules.each
        )
        error = next((f"{name}: {why}" if name else why for name, why in found if why), "")
    short = next((part for part in demand.parts if part.need > part.count), None)
    if not error and short is not None:
        error = case.named(short, _too_many(short.need, short.count))
    for members, need in demand.joint:
        size = sum(demand.parts[p].count for p in members)
        if not error and need > size:
            error = _too_many(need, size)
    return Explanation(Code.INVALID, "placement", error) if error else None


def _too_many(need: int, count: int) -> str:
    return f"{need} more pods are required, but only {count} more can be"


def nothing_matches(case: Case) -> Explanation | None:
    """NothingMatches: a pod that is needed fits no node, even if it were empty, ready, and not cordoned.

    A selector that no node satisfies is described by the first of its labels that no node has, with the
    values that nodes do have, since the likeliest cause is a typing error.
    """
    parts, world, short = case.demand.parts, case.world, case.demand.short
    able = [case.fit.slots.when_empty(part.shape, case.matching(part)).any() for part in parts]
    fits = [part.count if fits else 0 for part, fits in zip(parts, able, strict=True)]
    if not (lacking := short(fits)):
        return None
    # the first whose pods would help
    part = next(p for i, p in enumerate(parts) if short([*fits[:i], p.count, *fits[i + 1 :]]) < lacking)
    present = int(np.count_nonzero(world.eligibility.of(part.shape).obstacles & Obstacle.GONE == 0))
    if not present:
        message = "there is no node"
    elif not case.matching(part).any():
        message = f"none of {nodes_(present)} matches: {mismatch(part.shape, world.nodes.facts.values())}"
    else:
        message = _too_large(case, part)
    return Explanation(Code.NOTHING_MATCHES, "placement", case.named(part, message), case.pod_sets)


def _too_large(case: Case, part: Part) -> str:
    pod = case.asked(part)
    for resource, row, asked in pod:
        largest = int(case.world.nodes.capacity(row)[case.matching(part)].max(initial=0))
        if largest < asked:
            has = f"the largest matching node has {bare(resource, largest)}"
            return f"a pod asks {show(resource, asked)}; {has}{_hint(case, resource)}"
    if part.shape.claims:
        return (
            f"no matching node has {devices.asked(part.shape.claims)}, even if all of its devices were free"
        )
    together = " and ".join(show(resource, asked) for resource, _, asked in pod if resource != PODS)
    return f"no matching node has {together} together"


def _hint(case: Case, resource: str) -> str:
    """Say where the cluster has a resource of which nodes give out too little, if it has it elsewhere."""
    hint = case.world.hints.get(GPU if resource == GPU_SHARE else resource)
    return f"; {hint}" if hint else ""


def mismatch(shape: Shape, nodes: Iterable[NodeChanged]) -> str:
    """What keeps pods of this shape off these nodes, apart from cordons and readiness."""
    facts, found = list(nodes), Obstacle.NONE
    for fact in facts:
        found |= obstacle(shape, fact)
    causes = []
    if Obstacle.SELECTOR in found:
        causes.append(f"selector {_selector(shape, facts)}")
    if Obstacle.AFFINITY in found:
        causes.append("affinity")
    if Obstacle.VOLUME in found:
        causes.append("its volumes are elsewhere")
    if Obstacle.FEATURES in found:
        causes.append(f"its nodes must declare {', '.join(shape.features)} (status.declaredFeatures)")
    if Obstacle.TAINT in found:
        taints = {taint for node in facts for taint in untolerated(shape, node)}
        texts = {f"{taint.key}={taint.value}" if taint.value else taint.key for taint in taints}
        causes.append(f"taint {_few(texts)}")
    return ", ".join(causes)


def _selector(shape: Shape, nodes: list[NodeChanged]) -> str:
    labels = [dict(node.labels) for node in nodes]
    for key, value in shape.selector:
        values = {found[key] for found in labels if key in found}
        if value not in values:
            return f"{key}={value} ({f'here: {_few(values)}' if values else f'no node has {key}'})"
    wanted = ", ".join(f"{key}={value}" for key, value in shape.selector)
    return wanted if len(shape.selector) == 1 else f"{wanted} (no node has all of these)"


def _few(texts: set[str]) -> str:
    return ", ".join(sorted(texts)[:SHOWN]) + (", …" if len(texts) > SHOWN else "")


def insufficient_capacity(case: Case) -> Explanation | None:
    """InsufficientCapacity: less of some resource is free on all usable nodes than the minimum takes.

    If pods of any part may make up the minimum: than one pod takes, of each part. The first is reported.
    """
    nodes, named = case.world.nodes, ""
    short = _scarcest(case, [(name, least, case.usable(name)) for name, least in case.least.items()])
    if short is None:
        each = [_scarcest(case, _one(case, part)) for part in case.demand.parts]
        if None in each or not each:
            return None
        short, named = each[0], case.named(case.demand.parts[0], "")
    assert short is not None
    resource, demanded, usable, free = short
    serving = int(np.count_nonzero(usable))
    capacity = int(nodes.capacity(case.row(resource))[usable].sum(dtype=np.int64))
    message = f"{named}{case.total(resource, demanded)}; "
    none = "no matching node is ready and uncordoned"
    if case.kept_off():
        none += " beside those that are avoided because pods failed there"
    message += f"{are(resource, free)} free" if serving else none
    if serving and capacity < demanded:
        whole = f"all {serving} matching nodes together have" if serving > 1 else "the only matching node has"
        message += f", {whole} {bare(resource, capacity)}{_hint(case, resource)}"
    blockers = case.holders(resource, usable)
    return Explanation(Code.INSUFFICIENT_CAPACITY, "placement", message, case.pod_sets, blockers)


def _one(case: Case, part: Part) -> list[tuple[str, int, Bools]]:
    """What one pod of a part takes: resource, amount, and the nodes that it may use."""
    usable = case.world.eligibility.of(part.shape).eligible
    return [(resource, amount, usable) for resource, _, amount in case.asked(part)]


def _scarcest(case: Case, demanded: Iterable[tuple[str, int, Bools]]) -> tuple[str, int, Bools, int] | None:
    """Of (resource, amount, nodes), the one of whose amount the least part is free there, and how much."""
    found = [(name, amount, usable, case.free(name, usable)) for name, amount, usable in demanded]
    short = [each for each in found if each[3] < each[1]]
    return min(short, key=lambda each: (each[3] / each[1], each[0]), default=None)


def topology_unsatisfied(case: Case) -> Explanation | None:
    """TopologyUnsatisfied: it would fit, but not as near together, or as far from others, as required.

    The code also applies if other constraints keep it off as well, and it would fit only without both.
    """
    demand = case.demand
    barred = case.fit.exclusive_domains.barred(demand)
    shut = 0 if barred is None else len(barred)
    if not (demand.rules is not None or shut):
        return None
    besides = ""
    if not case.fits_without(rules=True):
        if not demand.constrained or case.fits_without(constraints=True):
            return None
        if not case.fits_without(rules=True, constraints=True):
            return None
        names = dict.fromkeys(text for part in demand.parts for _, text in _constraints(part))
        besides = f" and without {' and '.join(names)}"
    rules, sets = demand.rules or Rules(), case.pod_sets
    if rules.subgroups and (told := _of_a_subgroup(case)) is not None:
        return told
    nearest = case.fit.nearest(demand, case.answer) if demand.rules is not None else None
    if uneven := _uneven(rules, demand):
        found = uneven
    elif nearest is not None:
        parts = zip(demand.parts, nearest.fits, strict=True)
        sets = tuple(_there(case, part, n, nearest) for part, n in parts)
        found = _found(nearest, demand.need)
    elif rules.subgroups:
        found = "each of its parts fits by itself, but not all of them together"
    elif rules.exclusive:
        found = f"other gangs are in the domains of {nodes_(shut)}, or they have no label of it"
    elif shut:
        found = f"other gangs have the domains of {nodes_(shut)} to themselves"
    elif case.answer is None or case.answer.proven:
        found = "there is no such placement"
    else:
        found = "no such placement was found"
    message = f"{show(PODS, demand.need)}{_asked(rules)}; {found}; without that{besides} they fit"
    return Explanation(Code.TOPOLOGY_UNSATISFIED, "placement", message, sets)


def _of_a_subgroup(case: Case) -> Explanation | None:
    """The explanation of the first subgroup that would not fit even if it were the whole gang."""
    for piece in pieces(case.demand):
        alone = Case(case.world, case.fit, piece.demand, holding=case.holding)
        if piece.subgroup and not alone.fits() and (told := topology_unsatisfied(alone)) is not None:
            there = {each.name: each for each in told.pod_sets}
            sets = tuple(there.get(each.name, each) for each in case.pod_sets)
            return replace(told, message=f"{piece.subgroup}: {told.message}", pod_sets=sets)
    return None


def _asked(rules: Rules) -> str:
    return f"{_asked_of(rules)}{''.join(f', {name}{_asked_of(each)}' for name, each in rules.subgroups)}"


def _asked_of(rules: Rules) -> str:
    layers = [rule.layer for rule in rules.gather if rule.strategy is Strategy.MUST_GATHER]
    multiples = [f"{rule.multiple} per {rule.layer}" for rule in rules.gather if rule.multiple > 1]
    asked = [f"in one {' and one '.join(layers)}"] * bool(layers)
    asked += [f"in multiples of {' and '.join(multiples)}"] * bool(multiples)
    asked += [f"alone in every {rules.exclusive}"] * bool(rules.exclusive)
    return f" must be {', '.join(asked)}" if asked else ""


def _uneven(rules: Rules, demand: Demand) -> str:
    """Say that no number of pods from the minimum to all of them is a multiple; "": some is."""
    size = sum(part.count for part in demand.parts)
    for rule in rules.gather if rules.started is None else ():
        if rule.multiple > 1 and size // rule.multiple * rule.multiple < demand.need:
            if size == demand.need:
                return f"{size} is not a multiple of {rule.multiple}"
            return f"no number from {demand.need} to {size} is a multiple of {rule.multiple}"
    return ""


def _found(nearest: Nearest, need: int) -> str:
    fits = sum(nearest.fits)
    if fits >= need:
        return f"{nearest.title} has room for them, but not in that way"
    if nearest.among == 1:
        return f"{nearest.title} has room for {fits}"
    return f"of {nearest.among}, {nearest.title} has most room, for {fits}"


def _there(case: Case, part: Part, fits: int, nearest: Nearest) -> PodSetExplanation:
    """Explain a pod set in the domain with most room; other nodes with room are too far away."""
    slots = case.fit.slots.of(part.shape).slots
    away = int(np.count_nonzero(slots)) - int(np.count_nonzero(slots[nearest.columns]))
    limits = {"topology": away} if fits < part.need and away else {}
    return PodSetExplanation(part.pod_set, max(part.need, fits), fits, limits)


def constraint_unsatisfied(case: Case) -> Explanation | None:
    """ConstraintUnsatisfied: it would fit but for host ports, pod (anti-)affinity, or a spread."""
    if not case.demand.constrained or not case.fits_without(constraints=True):
        return None
    sets, answer = case.pod_sets, case.answer
    constrained = {part.pod_set: part for part in case.demand.parts if part.constrained}
    short = next((told for told in sets if told.fits < told.wanted and told.name in constrained), None)
    if short is None:  # each part fits by itself, but not all together
        short = next((told for told in sets if told.name in constrained), sets[0])
        found = "not all together"
    else:
        found = f"{short.fits} of {short.wanted} fit"
    if answer is not None and answer.reason in (Reason.EXHAUSTED, Reason.BUDGET):
        found += _certainty(answer)
    part = constrained.get(short.name, case.demand.parts[0])
    names = list(_constraints(part))
    # those that keep the next pod off nodes; all of them if none of them alone does
    decisive = [text for key, text in names if key in short.limited_by] or [text for _, text in names]
    message = (
        f"{show(PODS, short.wanted)} asked with {' and '.join(decisive)}; {found}; without that they would"
    )
    return Explanation(Code.CONSTRAINT_UNSATISFIED, "placement", case.named(part, message), sets)


def _constraints(part: Part) -> Iterator[tuple[str, str]]:
    """Yield a part's constraints besides room: the key in `limited_by`, and the wording for messages."""
    shape = part.shape
    if shape.ports:
        yield "ports", f"host port {', '.join(str(port.number) for port in shape.ports)}"
    if shape.pod_anti_affinity:
        yield "podAntiAffinity", f"anti-affinity by {_keys(term.key for term in shape.pod_anti_affinity)}"
    if part.affinity.pod_anti_affinity - set(shape.pod_anti_affinity):
        yield "podAntiAffinity", "other pods' anti-affinity"
    if shape.pod_affinity:
        yield "podAffinity", f"affinity by {_keys(term.key for term in shape.pod_affinity)}"
    if spreads := [spread.key for spread in shape.spread if spread.required]:
        yield "spread", f"spread over {_keys(spreads)}"


def _keys(keys: Iterable[str]) -> str:
    return ", ".join(sorted(set(keys)))


def _certainty(answer: Infeasible) -> str:
    if answer.proven:
        return "; no placement exists"
    if answer.open:
        return "; none was found within the search budget"
    return "; an exhaustive search found none"


def fragmented(case: Case) -> Explanation:
    """Fragmented: totals suffice, but no placement exists, or none was found."""
    demand, sets = case.demand, case.pod_sets
    short = next((pod_set for pod_set in sets if pod_set.fits < pod_set.wanted), sets[0])
    part = next(part for part in demand.parts if part.pod_set == short.name)
    vector, pod = case.fit.slots.of(part.shape), case.asked(part)
    limiting = [item for item in pod if item[0] in short.limited_by] or pod[:1]
    resource, _, asked = limiting[0]
    holding = int(np.count_nonzero(vector.slots))
    pieces = " and ".join(show(name, amount) for name, _, amount in limiting)
    pieces = pieces if len(limiting) > 1 else bare(resource, asked)
    if not holding:
        but = f"no {'GPU' if resource == GPU_SHARE else 'node'} has {pieces} free at once"
    elif vector.total == holding and len(demand.parts) == 1:
        but = f"only {nodes_(holding)} {'has' if holding == 1 else 'have'} {pieces} free at once"
    else:
        but = f"in pieces that take only {short.fits} of {short.wanted} pods"
    if "devices" in short.limited_by and not holding:
        but = devices.found(case, part)
    if case.answer is not None and len({part.shape for part in demand.parts}) > 1:
        but += _certainty(case.answer)  # for one shape greedy placement is exact
    usable = case.usable(resource)
    least = case.least.get(resource)  # None: other parts may make up the minimum
    asks = f"{show(resource, asked)} asked per pod" if least is None else case.total(resource, least)
    message = case.named(part, f"{asks}; {are(resource, case.free(resource, usable))} free, but {but}")
    return Explanation(Code.FRAGMENTED, "placement", message, sets, case.holders(resource, usable))


def nodes_avoided(case: Case, told: Mapping[NodeName, str]) -> Explanation | None:
    """CommitFailed: the pods would fit if they used nodes that they keep off because pods have failed there.

    `told`: what has failed, on each node that only pods of this origin keep off.
    """
    nodes = case.kept_off()
    if not nodes or not case.fits_without(avoidance=True):
        return None
    parts = [told.get(node) or case.world.failed_starts.accused(node) for node in nodes[:SHOWN]]
    more = [f"{len(nodes) - SHOWN} more nodes are avoided"] if len(nodes) > SHOWN else []
    message = f"{'; '.join([*parts, *more])}; nothing else fits"
    return Explanation(Code.COMMIT_FAILED, "commit", message, case.pod_sets)


Reasons = tuple[Callable[[Case], Explanation | None], ...]

#: Why a demand would not fit even if the cluster were empty: the first that returns an explanation counts.
NEVER: Final[Reasons] = (invalid, nothing_matches)
#: Why it does not fit now. The last always returns an explanation.
NOW: Final[Reasons] = (insufficient_capacity, topology_unsatisfied, constraint_unsatisfied, fragmented)


def kept_by_queue(case: Case, queues: Queues, queue: str, refusal: Explanation) -> Explanation:
    """Add numbers to a queue's refusal: how many pods fit in what the queue has left, and which gangs use it.

    These are gangs of the same queue and, for OverShare, the gangs on the nodes.
    """
    left = _left(queues, queue, refusal.code, case.demand)
    parts = {part.pod_set: part for part in case.demand.parts}
    sets = tuple(_cut(case, parts[told.name], told, left) for told in case.pod_sets)
    blockers: dict[GangId, None] = {}
    if parts:
        part = max(case.demand.parts, key=lambda part: part.need)
        resource = case.asked(part)[0][0]
        holders = case.holds(resource)
        own = [state.id for state in holders if state.gang is not None and state.gang.queue == queue]
        others = case.holders(resource, case.usable(resource)) if refusal.code is Code.OVER_SHARE else ()
        blockers = dict.fromkeys([*own, *others])
    message = refusal.message
    if refusal.code is Code.OVER_SHARE:
        message += _shared_with(queues.sharers(queue, case.demand, SHOWN + 1))
    return replace(refusal, message=message, pod_sets=sets, blockers=tuple(islice(blockers, BLOCKERS)))


def _shared_with(others: list[str]) -> str:
    """Name the queues whose waiting gangs lower a share. No amounts: these change all the time."""
    if not others:
        return ""
    if len(others) == 1:
        return f"; queue {others[0]} waits for its share, too"
    more = " and others" if len(others) > SHOWN else ""
    return f"; queues {', '.join(others[:SHOWN])}{more} wait for their shares, too"


def _left(queues: Queues, queue: str, code: Code, demand: Demand) -> dict[str, int]:
    """Return what the queue may still use of each limited resource; no pods if nothing may start at all."""
    account = queues.find(queue)
    if account is not None and code is Code.OVER_SHARE:
        return account.room(borrow=False)
    if account is not None and code is Code.QUOTA_EXCEEDED and account.cap_exceeded(demand.least, new=False):
        return account.room(borrow=True)
    return {PODS: 0}


def _cut(case: Case, part: Part, told: PodSetExplanation, left: dict[str, int]) -> PodSetExplanation:
    """Limit a pod set's explanation to the pods that quota allows, and subtract these from `left`."""
    one = {r: n for r, n in part.usage.items() if n and r in left}
    taken = min([told.wanted, *(max(left[r], 0) // n for r, n in one.items())])
    for resource, amount in one.items():
        left[resource] -= taken * amount
    if taken == told.wanted:
        return told
    vector = case.fit.slots.room(part.shape)
    free = int(np.count_nonzero(vector.slots))
    limits = {**case.limits(vector), **({"quota": free} if free else {})}
    return replace(told, fits=min(told.fits, taken), limited_by=limits)

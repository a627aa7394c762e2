"""Faults of queues: in one queue's own rules, a cycle of parents, or guarantees above the parent's limits."""

from collections.abc import Iterator, Mapping

from muster.core.words.amounts import Usage
from muster.core.words.gang import Queue
from muster.core.words.wording import bare, show
from muster.core.world.queues.account import ROOT


def faults_of(rules: Mapping[str, Queue]) -> dict[str, str]:
    """Return the fault of each faulty queue, by name: a queue below a faulty one is faulty, too.

    Guarantees are kept in order of name: if several exceed the limit together, the last ones are at fault.
    """
    faults: dict[str, str] = {}
    for name in sorted(rules):
        if found := _fault(rules[name]) or _cycle(name, rules):
            faults[name] = found
    for name in sorted(rules):
        parent = rules[name].parent
        if name not in faults and parent != ROOT and parent not in rules:
            faults[name] = f"its parent {parent} does not exist"
    promised: dict[str, Usage] = {}
    for name in sorted(rules):
        parent = rules[name].parent
        if name in faults or parent == ROOT or parent not in rules:
            continue
        so_far, own = promised.setdefault(parent, Usage()), Usage.of(rules[name].guarantee)
        guarantee = Usage.of(rules[parent].guarantee)
        limits = {**Usage.of(rules[parent].capability), **guarantee}
        for resource, amount in sorted(own.items()):
            if resource in limits and so_far[resource] + amount > limits[resource]:
                what = "guarantee" if resource in guarantee else "capability"
                whole, others = bare(resource, limits[resource]), bare(resource, so_far[resource])
                faults[name] = (
                    f"its guarantee of {show(resource, amount)} is more than is left of the {what} of its "
                    f"parent {parent}, {whole}, of which {others} are guaranteed to others below it"
                )
        if name not in faults:
            so_far.add(own)
    for name in sorted(rules):
        if name not in faults:
            above = next((a for a in _ancestors(name, rules) if a in faults), None)
            if above is not None:
                faults[name] = f"{above}, above it, is invalid: {faults[above]}"
    return faults


def _fault(queue: Queue) -> str:
    """Return what is wrong with a queue's own rules; "" if nothing is."""
    if queue.fault:
        return queue.fault
    if queue.name == ROOT:
        return "root is the name of what all queues are below; choose another"
    if queue.weight < 1:
        return f"its weight is {queue.weight}; write 1 or more"
    caps, guarantee = Usage.of(queue.capability), Usage.of(queue.guarantee)
    deserved = Usage.of(queue.deserved or ())
    for what, amounts in (("guarantee", guarantee), ("deserved", deserved)):
        for resource, amount in sorted(amounts.items()):
            if amount > caps.get(resource, amount):
                cap = show(resource, caps[resource])
                return f"its {what} of {bare(resource, amount)} is above its capability of {cap}"
    for resource, amount in sorted(deserved.items()):
        if amount < guarantee[resource]:
            least = show(resource, guarantee[resource])
            return f"it deserves {bare(resource, amount)}, less than its guarantee of {least}"
    return ""


def _cycle(name: str, rules: Mapping[str, Queue]) -> str:
    seen = [name]
    for above in _ancestors(name, rules):
        seen.append(above)
        if above == name:
            return f"queues are in a cycle: {' is below '.join(seen)}"
    return ""


def _ancestors(name: str, rules: Mapping[str, Queue]) -> Iterator[str]:
    """Yield the queues above one, each once; stops at the top of the tree, or where a cycle closes."""
    seen: set[str] = set()
    while name in rules and (name := rules[name].parent) != ROOT and name not in seen:
        seen.add(name)
        yield name

"""What is wrong with the rules of queues."""

from collections.abc import Iterator, Mapping

from muster.core.words.amounts import Usage, bare, show
from muster.core.words.gang import Queue
from muster.core.world.queues.account import DEFAULT, ROOT


def faults_of(rules: Mapping[str, Queue]) -> dict[str, str]:
    """Return the fault of each faulty queue, by name: a queue below a faulty one is faulty, too.

    Muster's own queues are judged as if there were no adopted ones. An adopted one that would change what is
    found, or would take from a queue its gangs, is itself at fault. Guarantees are kept in order of name: if
    several exceed the limit together, the last ones are at fault.
    """
    own = {name: queue for name, queue in rules.items() if not queue.adopted}
    if len(own) == len(rules):
        return _judged(rules, {})
    if DEFAULT in rules:
        own.setdefault(DEFAULT, Queue(DEFAULT))
    known = _judged(own, {})
    inner = {queue.parent for name, queue in own.items() if name not in known}
    refused = dict[str, str]()
    others = {name: queue for name, queue in rules.items() if queue.adopted}
    if (default := others.pop(DEFAULT, None)) is not None:
        if default.parent != ROOT:
            refused[DEFAULT] = f"its parent is {default.parent}; the parent of {DEFAULT} is {ROOT}"
        else:
            tried = _judged({**own, DEFAULT: default}, {})
            new = sorted(tried.keys() - known.keys() - {DEFAULT})
            if why := tried.get(DEFAULT) or (f"with it, {new[0]} is invalid: {tried[new[0]]}" if new else ""):
                refused[DEFAULT] = why
            else:
                own[DEFAULT] = default
    takers = own.keys() - inner
    taken = {
        name: f"its parent {queue.parent} is a queue for gangs; name one that has queues of muster below it"
        for name, queue in others.items()
        if queue.parent in takers
    }
    return {**_judged({**own, **others}, {**taken, **known}), **refused}


def _judged(rules: Mapping[str, Queue], known: Mapping[str, str]) -> dict[str, str]:
    """Return the faults that are known, and those of the other queues; adopted ones are judged last."""
    faults = {**known}
    for name in sorted(rules.keys() - known.keys()):
        parent = rules[name].parent
        missing = f"its parent {parent} does not exist" if parent not in (ROOT, *rules) else ""
        if found := _fault(rules[name]) or _cycle(name, rules) or missing:
            faults[name] = found
    promised: dict[str, Usage] = {}
    for name in sorted(rules, key=lambda name: (rules[name].adopted, name)):
        parent = rules[name].parent
        if name in faults or parent == ROOT:
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
        return "root is the name of the tree's root; choose another"
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

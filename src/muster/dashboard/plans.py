"""What would happen if objects were submitted, for the page Plan. Nothing is submitted."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from muster.api.base import Object
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.fields import UNREADABLE, InvalidObject
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.rates import amount, money
from muster.app.plan import Plan
from muster.app.plan.decisions import Decision
from muster.app.snapshot import Snapshot
from muster.dashboard.drawing import duration
from muster.runtime.mirror import WATCHED
from muster.workloads import demand, load, snapshot
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.snapshot import Objects

#: What the text is called in messages.
CALLED: Final = "the text"
#: Rows of the table, and names in a cell.
ROWS: Final = 100
NAMES: Final = 6
#: Pods of a text: more take minutes, in which the pages of all viewers are slow.
MOST_PODS: Final = 10_000


def planned(there: Snapshot, text: str, *, embedded: bool) -> Object:
    """The values of the page. Raises JobFileError, and Invalid if an immutable field would change.

    `embedded`: the text may also be a job file that is compiled here, as `muster submit` would.
    """
    found = there.plan(_proposed(text, embedded=embedded))
    own, others = found.decisions[: found.proposed], found.decisions[found.proposed :]
    changed = [each for each in others if each.victims or found.before.get(each.gang) is not each.outcome]
    return {
        "rows": [_row(each) for each in own[:ROWS]],
        "others": [_row(each) | {"before": _before(found, each)} for each in changed[:ROWS]],
        "more": max(len(own) - ROWS, 0) + max(len(changed) - ROWS, 0),
        "same": len(others) - len(changed),
        "notes": found.notes[:ROWS],
    }


def _proposed(text: str, *, embedded: bool) -> Objects:
    content = text.encode()
    if embedded and load.holds_no_more(content, CALLED):
        job = load.load(CALLED, Options(runs=False, jobs=False), text=content)
        objects = snapshot.typed(job.objects, WATCHED, CALLED, proposed=True)
        if objects.items:
            objects.ignored.clear()  # config maps and the like do not affect decisions
    else:
        objects = snapshot.parse(content, CALLED, WATCHED, proposed=True)
    if not objects.items:
        kinds = ", ".join(f"{count} × {what}" for what, count in sorted(objects.ignored.items()))
        message = f"nothing to plan; found only {kinds or 'nothing'}"
        raise JobFileError.of(CALLED, "; ".join((message, *objects.advice())))
    if (pods := _pods(objects)) > MOST_PODS:
        message = f"has {pods:,} pods, and a page plans {MOST_PODS:,}; in a terminal: muster plan FILE"
        raise JobFileError.of(CALLED, message)
    return objects


def _pods(objects: Objects) -> int:
    """How many pods there would be at once; none of an object that cannot be read."""
    total = 0
    for (kind, _, _), each in objects.items.items():
        if isinstance(each, Pod):
            total += 1
        elif isinstance(each, Job | JobSet):
            value: Object = {**msgspec.to_builtins(each), "apiVersion": kind.api_version, "kind": kind.kind}
            with suppress(InvalidObject, *UNREADABLE):  # the plan says why
                total += sum(max(one.count, 0) for one in demand.pod_sets(value))
    return total


def _row(decision: Decision) -> Object:
    told = decision.reason or {}
    return {
        "gang": decision.gang,
        "outcome": decision.outcome.value,
        "pods": len(decision.assignments),
        "where": _where(decision) if not told else f"{told['code']}: {told['message']}",
        "remedies": told.get("remedies") or [],
        "consequences": list(_consequences(decision)),
    }


def _where(decision: Decision) -> str:
    counts = Counter(decision.assignments.values())
    if not counts:
        return "has all that it needs"
    named = [f"{node} ×{count}" if count > 1 else node for node, count in sorted(counts.items())]
    more = f" and {len(named) - NAMES} more nodes" if len(named) > NAMES else ""
    return ", ".join(named[:NAMES]) + more


def _before(found: Plan, decision: Decision) -> str:
    before = found.before.get(decision.gang)
    return before.value if before is not None else ""


def _consequences(decision: Decision) -> Iterator[str]:
    if number := len(decision.victims):
        some = ", ".join(decision.victims[:NAMES]) + (f" and {number - NAMES} more" if number > NAMES else "")
        yield f"evicts {number} {'pod' if number == 1 else 'pods'}: {some}"
        cost = decision.cost
        hours, seconds = cost.gpu_hours_lost, f"{cost.gpu_seconds:,.0f} resource-seconds"
        work = f"{hours} GPU-hours" if hours else seconds
        price = amount(cost.cost_lost)
        yield f"loses {work} of work" + (f" ({money(price)})" if price is not None else "")
    for each in decision.delays:
        yield f"delays {each.gang} by {'an unknown time' if each.by is None else duration(each.by)}"

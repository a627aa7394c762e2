"""The deliberate faults: what is broken, which invariant of docs/proofs.md it breaks, and who must notice.

A fault is a line of the source and what it is replaced by. Where a line has changed, its fault is out of date
and says so (an error, not a pass). Tests are named as narrowly as goes: a fault should be caught by the
check of its own invariant, not by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[2] / "src"


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    invariant: str
    #: below src/muster
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The source with the fault. Raises ValueError unless its place is found exactly once."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(
                f"{self.name}: its text is found {found} times in {self.file}; "
                "bring tests/mutants/faults.py up to date"
            )
        return text.replace(self.old, self.new)


def outdated(faults: Sequence[Fault]) -> list[str]:
    """What is wrong with the table."""
    wrong = []
    for fault in faults:
        try:
            fault.applied((SOURCE / "muster" / fault.file).read_text())
        except (OSError, ValueError) as error:
            wrong.append(str(error))
    return wrong


_EVENTS: Final = ("tests/core/test_invariants.py",)
_BACKFILL: Final = ("tests/sim/test_backfill.py",)
_REMEDIES: Final = ("tests/core/test_remedies.py",)

FAULTS: Final = (
    Fault(
        "a rollback that does nothing",
        "oversubscription",
        "core/ledger.py",
        "self._charge(where, demand, -times",
        "self._charge(where, demand, 0 * times",
        ("tests/core/test_ledger.py",),
    ),
    Fault(
        "a slot too many on each node",
        "oversubscription",
        "core/slots.py",
        "        np.maximum(slots, 0, out=slots)",
        "        np.maximum(slots + (slots > 0), 0, out=slots)",
        _EVENTS,
    ),
    Fault(
        "a hold is not charged",
        "oversubscription",
        "core/facts.py",
        "device = self._ledger.take(ended.node, requests, device, who)",
        "pass",
        _EVENTS,
    ),
    Fault(
        "a pod that moves is charged twice",
        "oversubscription",
        "core/facts.py",
        "self._ledger.give(bound.node, bound.requests, bound.presence.device, bound.presence, times)",
        "pass",
        _EVENTS,
    ),
    Fault(
        "a pod without a place, told of with others that keep a promise, counts as charged",
        "oversubscription",
        "core/facts.py",
        "promises.count(promise) < len(event.pods)",
        "promises.count(promise) < len(promises)",
        ("tests/core/test_scheduler.py",),
    ),
    Fault(
        "a device that is chosen twice",
        "oversubscription",
        "core/devices.py",
        "if 0 < amount <= WHOLE - share]",
        "if 0 < amount]",
        _EVENTS,
    ),
    Fault(
        "a shared device is not a whole one less",
        "oversubscription",
        "core/devices.py",
        "        self._note(node, device, opened=used[device] == share)",
        "        self._note(node, device, opened=0)",
        _EVENTS,
    ),
    Fault(
        "the gang's minimum counts one less",
        "all or nothing",
        "core/wants.py",
        "        overall = max(gang.min_count - sum(done), 0)",
        "        overall = max(gang.min_count - 1 - sum(done), 0)",
        _EVENTS,
    ),
    Fault(
        "pod sets' own minima are forgotten",
        "all or nothing",
        "core/wants.py",
        "        needs = [max(p.min_count - d, 0) for p, d in zip(gang.pod_sets, done, strict=True)]",
        "        needs = [0 for p, d in zip(gang.pod_sets, done, strict=True)]",
        _EVENTS,
    ),
    Fault(
        "gated gangs are placed",
        "all or nothing",
        "core/wants.py",
        "        if gang.gate is not None:\n            return\n        state.carried",
        "        state.carried",
        _EVENTS,
    ),
    Fault(
        "a hard cap counts at the queue itself only",
        "quota",
        "core/queues/__init__.py",
        "in account.path:\n            for resource, amount in counted(demand) if",
        "in account.path[:1]:\n            for resource, amount in counted(demand) if",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "what a queue uses is not given back",
        "quota",
        "core/queues/__init__.py",
        "                add(above.used, charge.used, sign)",
        "                add(above.used, charge.used, max(sign, 0))",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "a closed queue starts gangs",
        "quota",
        "core/admission.py",
        "        closed = self._queues.closed(account)",
        "        closed = None",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "equals are victims",
        "preemption",
        "core/preemption/__init__.py",
        "other.priority < preemptor.priority",
        "other.priority <= preemptor.priority",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "everybody is ended who may be",
        "preemption",
        "core/preemption/victims.py",
        "chosen = best.chosen if best.trial is whole else whole.reprieve(best.chosen)",
        "chosen = best.usable",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "whichever domain comes first is cleared",
        "preemption",
        "core/preemption/victims.py",
        "in sorted(found)[:DOMAINS]:",
        "in found[:1]:",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "who leaves already is a victim again",
        "preemption",
        "core/preemption/__init__.py",
        "barred = {*leaving, *self.departures.whole, *self.departures.beneficiaries, preemptor.id}",
        "barred = {preemptor.id}",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "the room of victims is free for everybody",
        "preemption",
        "core/preemption/departures.py",
        "if (least := min(amount, left[node].get(row, 0)))",
        "if (least := left[node].get(row, 0))",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "a budget is asked pod by pod",
        "preemption",
        "core/preemption/limits.py",
        "(needs[taken].sum(axis=0) <= np.maximum(most, 0)).all()",
        "(needs[taken].max(axis=0) <= np.maximum(most, 0)).all()",
        ("tests/core/test_preemption.py", "tests/core/test_evictions.py"),
    ),
    Fault(
        "victims need not make room below a cap",
        "preemption",
        "core/preemption/limits.py",
        "in queues.excess(account, demand):",
        "in ():",
        ("tests/core/test_preemption.py", "tests/core/test_evictions.py"),
    ),
    Fault(
        "who leaves takes one of the places of a queue's gangs still",
        "preemption",
        "core/queues/__init__.py",
        "        stands = state.begun and bool(used or not leaving)",
        "        stands = state.begun",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "more is taken back than was lent",
        "preemption",
        "core/preemption/limits.py",
        "        queues.shift(theirs, freed, -1)",
        "        queues.shift(theirs, (), -1)",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "a gang is left below its minimum",
        "preemption",
        "core/preemption/candidates.py",
        "    spare = sum(counts.values()) - gang.min_count",
        "    spare = sum(counts.values()) - gang.min_count + 1",
        ("tests/core/test_preemption.py", "tests/core/test_evictions.py"),
    ),
    Fault(
        "victims are taken for ever",
        "preemption",
        "core/preemption/departures.py",
        "        return not departure.promised or any(place in state.filled for place in departure.places)",
        "        return False",
        ("tests/core/test_preemption.py", "tests/core/test_evictions.py"),
    ),
    Fault(
        "who need not leave after all is never a victim again",
        "preemption",
        "core/preemption/__init__.py",
        "            self.forget()\n            self._spared = True",
        "            self._spared = True",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "a reservation is ignored",
        "waiting bound",
        "core/backfill/__init__.py",
        "        first = self._in_the_way(state, until)",
        "        first = None",
        _BACKFILL,
    ),
    Fault(
        "whoever outlives the reservation passes too",
        "waiting bound",
        "core/backfill/__init__.py",
        "self._now + self._ends.duration(state.gang)",
        "self._now + self._ends.duration(state.gang) / 2",
        _BACKFILL,
    ),
    Fault(
        "a reservation is kept though there is room before",
        "waiting bound",
        "core/backfill/timetable.py",
        "            if nodes.all_free(row) + left.before[row] < want.need * amount:",
        "            if True:",
        ("tests/core/test_backfill.py",),
    ),
    Fault(
        "a share passes that keeps a reserved GPU open",
        "waiting bound",
        "core/backfill/__init__.py",
        "            if others and others <= left[node, number]:",
        "            if False:",
        ("tests/core/test_backfill.py",),
    ),
    Fault(
        "multiples of a layer are not looked at",
        "topology",
        "core/topology/multiples.py",
        "            if multiple > 1:",
        "            if multiple > 1000:",
        ("tests/core/test_gather.py",),
    ),
    Fault(
        "a required layer is a wish",
        "topology",
        "core/topology/rules.py",
        "limit = max(musts, default=0)",
        "limit = 0",
        ("tests/core/test_gather.py",),
    ),
    Fault(
        "the loosest layer is tried first",
        "topology",
        "core/topology/gather.py",
        "range(self._node, self._loosest - 1, -1)",
        "range(self._loosest, self._node + 1)",
        ("tests/core/test_gather_together.py",),
    ),
    Fault(
        "pods stand in no order",
        "topology",
        "core/topology/neighbours.py",
        "            pods.sort(key=partial(_rank, claim))",
        "            pass",
        ("tests/core/test_gather.py",),
    ),
    Fault(
        "a port is given twice",
        "company",
        "core/constraints/__init__.py",
        "self._presences.count(Using(self._shape.ports)) > 0",
        "self._presences.count(Using(self._shape.ports)) > 1",
        ("tests/core/test_constraints.py",),
    ),
    Fault(
        "affinity that opens a domain for each pod",
        "company",
        "core/constraints/__init__.py",
        "if self._meets_itself and not any(found.any() for found in there):",
        "if self._meets_itself:",
        ("tests/core/test_constraints.py",),
    ),
    Fault(
        "a spread that nobody judges in the end",
        "company",
        "core/placement.py",
        "if trial.fill_minimum(want.need) and trial.even():",
        "if trial.fill_minimum(want.need):",
        ("tests/core/test_constraints.py",),
    ),
    Fault(
        "labels that stay when a hold is given back",
        "company",
        "core/gangs.py",
        "ledger.give(promise.node, promise.requests, promise.device, promise.presence)",
        "ledger.give(promise.node, promise.requests, promise.device)",
        ("tests/core/test_constraints.py",),
    ),
    Fault(
        "a part that is cut to its share forgets whom it keeps away from",
        "company",
        "core/admission.py",
        "tuple(replace(part, count=count) for",
        "tuple(Part(part.pod_set, part.shape, count, part.need) for",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "the exact rungs are never asked",
        "work conservation",
        "core/fit.py",
        "        if not claim.search:",
        "        if True:",
        ("tests/core/test_exact.py",),
    ),
    Fault(
        "cached slots do not follow a single change",
        "caches",
        "core/slots.py",
        "            for column in changed:\n                self._update(",
        "            for column in changed[1:]:\n                self._update(",
        _EVENTS,
    ),
    Fault(
        "cached masks do not follow a node's facts",
        "caches",
        "core/eligibility.py",
        "            changed = nodes.fact_changes.since(mask.position)",
        "            changed = []",
        _EVENTS,
    ),
    Fault(
        "gangs are served in the order of their hashes",
        "determinism",
        "core/wants.py",
        "        state.rank = (-gang.priority, gang.submitted, state.id)",
        "        state.rank = (-gang.priority, gang.submitted, GangId(str(hash(state.id))))",
        ("tests/core/test_determinism.py",),
    ),
    Fault(
        "ties go to the largest name",
        "determinism",
        "core/placement.py",
        "at_threshold = _first(key == threshold, count - len(candidates))",
        "at_threshold = len(key) - 1 - _first((key == threshold)[::-1], count - len(candidates))",
        ("tests/core/test_placement.py",),
    ),
    Fault(
        "a remedy that was not tried",
        "explanations",
        "core/remedies/rehearsal.py",
        "                return any(self._play({state.id: state}))",
        "                return True",
        _REMEDIES,
    ),
    Fault(
        "a remedy that delays who has a reservation",
        "explanations",
        "core/remedies/rehearsal.py",
        "        waits = state.waits and turn.standing is not Standing.OVER and not turn.offer.full",
        "        waits = False",
        _REMEDIES,
    ),
    Fault(
        "a remedy's trial is charged for good",
        "oversubscription",
        "core/remedies/question.py",
        "        ledger.rollback(mark)\n        return isinstance",
        "        return isinstance",
        _REMEDIES,
    ),
    Fault(
        "a queue has one gang more than it may",
        "quota",
        "core/queues/__init__.py",
        "if most is not None and above.gangs >= most:",
        "if most is not None and above.gangs > most:",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "what ResourceQuotas have left is promised twice",
        "quota",
        "core/quotas.py",
        "left, kept = room.get(resource), promised.get(resource, 0)",
        "left, kept = room.get(resource), 0",
        ("tests/core/test_quotas.py",),
    ),
    Fault(
        "whose places have run out comes back into a full queue",
        "quota",
        "core/order.py",
        "yield from self._to_finish([state]) if state.begun else self._anew(state)",
        "yield from self._to_finish([state])",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "pods that leave already do not count for budgets",
        "preemption",
        "core/preemption/budgets.py",
        "                    left[key] -= 1",
        "                    left[key] -= 0",
        ("tests/core/test_preemption.py", "tests/core/test_evictions.py"),
    ),
    Fault(
        "budgets are not asked",
        "preemption",
        "core/preemption/limits.py",
        "        if needs.any():",
        "        if False:",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "a minimum run time is no matter",
        "preemption",
        "core/preemption/candidates.py",
        "            if gang.min_run_time > 0:",
        "            if gang.min_run_time > 1000:",
        ("tests/core/test_preemption.py",),
    ),
    Fault(
        "queues that do not give back are taken from",
        "reclaim",
        "core/queues/__init__.py",
        "if not account.rules.reclaimable or not any(",
        "if not any(",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "a guarantee is taken back",
        "reclaim",
        "core/queues/__init__.py",
        "account.used.get(r, 0) - amount < account.kept.get(r, 0)",
        "account.used.get(r, 0) - amount < 0",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "who is over his own share takes back from others",
        "reclaim",
        "core/queues/__init__.py",
        "            if self._exceeds(account, demand):",
        "            if False:",
        ("tests/core/test_queues.py", "tests/core/test_queue_examples.py"),
    ),
    Fault(
        "weights do not count",
        "reclaim",
        "core/queues/entitlement.py",
        "            shares[name] = pool * weights[name] // total",
        "            shares[name] = pool // len(thirsty)",
        ("tests/core/test_entitlement.py",),
    ),
    Fault(
        "nothing is lent",
        "work conservation",
        "core/admission.py",
        "        return Lent(want if _fits(most, room) else self._cut(want, room), over)",
        "        return Lent(None if over else want, over)",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "an open plan is asked about again",
        "restart",
        "core/admission.py",
        "        if (planned := self._planned(state)) is not None:",
        "        if (planned := None) is not None:",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "who lacks something is before an open plan",
        "restart",
        "core/order.py",
        "sorted(begun, key=lambda state: not state.planned)",
        "begun",
        ("tests/core/test_queues.py",),
    ),
    Fault(
        "domains of an exclusive gang are open to others",
        "topology",
        "core/topology/exclusion.py",
        "self._in_domains(level, holders > 0) & self._in_domains(level, crowd > 0)",
        "self._in_domains(level, holders > 9) & self._in_domains(level, crowd > 0)",
        _EVENTS,
    ),
    Fault(
        "an exclusive gang goes where others are",
        "topology",
        "core/topology/exclusion.py",
        "barred |= self._in_domains(level, crowd > 0) | (",
        "barred |= (",
        _EVENTS,
    ),
    Fault(
        "who gives up a domain is not noticed",
        "caches",
        "core/topology/exclusion.py",
        '        return before not in ("", layer)',
        "        return False",
        ("tests/core/test_exclusion.py",),
    ),
    Fault(
        "a spread may be one pod further",
        "company",
        "core/constraints/__init__.py",
        "(counts[used] - fewest(spread, counts, counted) > spread.max_skew).any()",
        "(counts[used] - fewest(spread, counts, counted) > spread.max_skew + 1).any()",
        ("tests/core/test_constraints.py",),
    ),
    Fault(
        "spreads do not look at who is there",
        "company",
        "core/constraints/__init__.py",
        "                full = counts + self._selects(spread) - least > spread.max_skew",
        "                full = counts + self._selects(spread) - least > 99",
        ("tests/core/test_constraints.py",),
    ),
    Fault(
        "nobody needs the company that he wants",
        "company",
        "core/constraints/__init__.py",
        "            missing |= ~domain.where(found)",
        "            pass",
        _EVENTS,
    ),
    Fault(
        "GPUs that shares keep open are waited for in vain",
        "waiting bound",
        "core/backfill/earliest.py",
        "        return use(GPU, 0) + (use(PODS, 0) if use(GPU_SHARE, 0) else 0)",
        "        return use(GPU, 0)",
        ("tests/core/test_backfill.py",),
    ),
    Fault(
        "queues that are served by their shares alone",
        "fairness",
        "core/admission.py",
        "return self._cut(want, room) if _fits(least, room) else None",
        "return want",
        ("tests/core/test_fairness.py",),
    ),
    Fault(
        "the same queue is lent to again and again",
        "fairness",
        "core/queues/__init__.py",
        "            above.carried_over = self._overshoots\n",
        "            above.carried_over = -1\n",
        ("tests/core/test_fairness.py",),
    ),
    Fault(
        "newcomers are behind those who wait, whatever their rank",
        "waiting bound",
        "core/quiet.py",
        "all(mine < key for key in newcomers if key is not None)",
        "True",
        ("tests/core/test_quiet.py",),
    ),
    Fault(
        "who could end others is passed over",
        "work conservation",
        "core/quiet.py",
        "return self._ends_nobody(account, line) and all(",
        "return all(",
        ("tests/core/test_quiet.py",),
    ),
)

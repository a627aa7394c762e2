"""Faults of the committer: at least one in every module of `runtime/commit/`, and what stands beside it."""

from typing import Final

from tests.mutants.faults import Fault

_STEP: Final = ("tests/runtime/test_commit.py",)
_ATTEMPTS: Final = ("tests/runtime/test_attempts.py",)
_VICTIMS: Final = ("tests/runtime/test_victims.py",)
_REPEATS: Final = ("tests/runtime/test_repeats.py",)
_CONSENT: Final = ("tests/runtime/test_consent.py",)
_LOOP: Final = ("tests/runtime/test_loop.py",)
_VOLUMES: Final = ("tests/runtime/test_volumes.py",)


def _fault(name: str, file: str, old: str, new: str, tests: tuple[str, ...]) -> Fault:
    return Fault(name, "commit", f"runtime/{file}", old, new, tests)


FAULTS: Final = (
    _fault(
        "a late plan stays",
        "commit/step.py",
        "    if late or superseded:",
        "    if superseded:",
        _STEP,
    ),
    _fault(
        "binds before the minimum can be reached",
        "commit/step.py",
        "    if binding.places and minimum_met(group.gang, places.settled | binding.places.keys()):",
        "    if binding.places:",
        _VOLUMES,
    ),
    _fault(
        "binds while victims are there",
        "commit/step.py",
        "    if any(victim.pods for victim in view.victims):",
        "    if any(victim.pods and victim.owner for victim in view.victims):",
        _VICTIMS,
    ),
    _fault(
        "two binds without a plan",
        "commit/step.py",
        "len(places.missing) == 1",
        "len(places.missing) <= 2",
        _STEP,
    ),
    _fault(
        "a gang that waits for a fence is written to",
        "commit/step.py",
        "    if view.unfenced is not None and not group.finished:",
        "    if view.unfenced is not None and group.finished:",
        _LOOP,
    ),
    _fault(
        "a suspended gang counts as running",
        "commit/context.py",
        "        return self.group.owner is not None and self.group.owner.suspended",
        "        return False",
        _STEP,
    ),
    _fault(
        "a pod is bound before its volume is there",
        "commit/claims.py",
        "    return [claim for claim in claims if claim is not None and not claim.spec.volume_name]",
        "    return []",
        _VOLUMES,
    ),
    _fault(
        "members that were refused are not bound first",
        "commit/binding.py",
        "    for place in sorted(doubtful or bindable.places):",
        "    for place in sorted(bindable.places):",
        _STEP,
    ),
    Fault(
        "an effect follows a run that has failed",
        "commit",
        "effects/execute.py",
        "        if any(outcome.error is not None for outcome in done):",
        "        if False:",
        ("tests/effects/test_execute.py",),
    ),
    _fault(
        "the next attempt forgets what is filled",
        "commit/attempts.py",
        "nodes={**{p: NodeName(pod.spec.node_name) for p, pod in places.filled.items()}, **places.missing},",
        "nodes=dict(places.missing),",
        _ATTEMPTS,
    ),
    _fault(
        "the next attempt forgets the pods that are bound",
        "commit/attempts.py",
        "chain(places.filled.items(), places.ready.items())",
        "chain(places.ready.items())",
        _ATTEMPTS,
    ),
    _fault(
        "attempts forget what the Gang says",
        "commit/attempts.py",
        "    last = view.record.status.attempt if view.record else 0",
        "    last = 0",
        _ATTEMPTS,
    ),
    _fault(
        "a plan without its Gang",
        "writes.py",
        "        first = () if record is not None else (create_gang(group, status),)",
        "        first = ()",
        _ATTEMPTS,
    ),
    _fault(
        "a plan in its Gang is written over whatever came meanwhile",
        "writes.py",
        '    body = {"metadata": {"resourceVersion": version}, "plan": plan, **status}',
        '    body = {"plan": plan, **status}',
        _ATTEMPTS,
    ),
    _fault(
        "a plan goes before its gang is told of",
        "writes.py",
        "    return (*([status] if status is not None else []), delete_plan(plan))",
        "    return (delete_plan(plan),)",
        _STEP,
    ),
    _fault(
        "a gang that is gone leaves its victims half",
        "commit/ending.py",
        "list(end_victims(begun(view.victims), view.id, view.lost, now, view.names))",
        "[]",
        _VICTIMS,
    ),
    _fault(
        "a plan that names victims of another namespace is in a Gang, which users read",
        "commit/attempts.py",
        "    most = 0 if hidden else context.limits.held_plan",
        "    most = context.limits.held_plan",
        ("tests/runtime/test_crashes.py",),
    ),
    _fault(
        "a victim in another namespace reads for which gang it is evicted",
        "commit/victims.py",
        "    note = {**entry(recorded, names.gang(by, own)), **key, **loss}",
        "    note = {**entry(recorded, by), **key, **loss}",
        ("tests/runtime/test_crashes.py",),
    ),
    _fault(
        "Events name gangs of other namespaces",
        "group_events.py",
        "                told = self._names.text(said.message, group.namespaces)",
        "                told = said.message",
        ("tests/runtime/test_disclosure.py",),
    ),
    _fault(
        "pods that nothing would re-create are evicted",
        "commit/ending.py",
        "    if filled and group.controlled:",
        "    if filled:",
        _STEP,
    ),
    _fault(
        "a release without suspending",
        "commit/ending.py",
        "        first = () if owner.suspended else (suspend(group.namespace, owner),)",
        "        first = ()",
        _STEP,
    ),
    _fault(
        "a failed commit never waits for a change",
        "commit/outcomes.py",
        "        until = NEVER if state.failures >= limits.attempts and not state.trouble else now + delay",
        "        until = now + delay",
        _STEP,
    ),
    _fault(
        "a member that is refused twice is tried on",
        "commit/refusals.py",
        "    return refusal.times > 1 and now < refusal.until",
        "    return False",
        _STEP,
    ),
    _fault(
        "a write without effect is repeated at once",
        "commit/outcomes.py",
        "    if repeats < 2:",
        "    if repeats < 200:",
        _REPEATS,
    ),
    Fault(
        "a pod with a scheduling gate is bound",
        "commit",
        "translate/filling.py",
        "        gates = scheduling_gates(pod.spec)",
        '        gates = ""',
        ("tests/translate/test_job.py",),
    ),
    _fault(
        "minima of pod sets are not asked for",
        "commit/places.py",
        "    return gang.met(Counter(place.pod_set for place in places))",
        "    return Counter(place.pod_set for place in places).total() >= gang.min_count",
        _STEP,
    ),
    _fault(
        "a reason is written at every look",
        "commit/status.py",
        "    if now < state.reported_at + pause:",
        "    if now < state.reported_at:",
        _STEP,
    ),
    _fault(
        "a gang below its minimum without a controller only waits",
        "commit/status.py",
        "    if places.filled and not group.controlled:",
        "    if places.filled and group.controlled:",
        _STEP,
    ),
    _fault(
        "a preemption is noted again and again",
        "commit/victims.py",
        "    if record is None or noted(record, recorded, by, victim.key):",
        "    if record is None:",
        _VICTIMS,
    ),
    _fault(
        "a victim's own start goes on",
        "commit/victims.py",
        "        if victim.recorded.whole:",
        "        if not victim.recorded.whole:",
        _VICTIMS,
    ),
    _fault(
        "a victim that has lost a pod may stay",
        "commit/victims.py",
        "        if 0 < sum(map(live, victim.pods)) < len(victim.recorded.pods):",
        "        if 0 < sum(map(live, victim.pods)) < len(victim.pods):",
        _VICTIMS,
    ),
    _fault(
        "a start that makes no progress keeps its places for hours",
        "commit/view.py",
        "    progress_timeout: float = 60.0",
        "    progress_timeout: float = 6_000.0",
        _STEP,
    ),
    _fault(
        "a plan may end pods of any namespace",
        "consent.py",
        "    if _namespaces(victim, group) == {plan.namespace}:",
        "    if plan.namespace:",
        _CONSENT,
    ),
    _fault(
        "a note of an earlier end is leave for the next",
        "consent.py",
        "    return seconds(pod.metadata.creation_timestamp) <= at",
        "    return True",
        _CONSENT,
    ),
    Fault(
        "a success that its Job has not counted yet is a loss",
        "commit",
        "translate/filling.py",
        "len(known.succeeded.keys() | {*map(PodId, listed)})",
        "len(listed)",
        ("tests/translate/test_job.py",),
    ),
    _fault(
        "a fence that is refused is made without end",
        "fencing.py",
        "        tried.refusal = refusal",
        "        tried.refusal = ''",
        _LOOP,
    ),
    _fault(
        "a plan is deleted by the name that muster would have given it",
        "plan_record.py",
        'return self.named or f"{self.record}-{self.attempt}"',
        'return f"{self.record}-{self.attempt}"',
        _REPEATS,
    ),
    _fault(
        "a plan is taken for that of another gang with its id",
        "mirror.py",
        "        if known is None and plan.gang in self.groups:",
        "        if known is None and plan.gang not in self.groups:",
        _REPEATS,
    ),
)

"""Remedies work: each remedy is carried out, as its words say, and the gang starts.

Clusters are played twice from the same facts. The first time every gang is told why it waits; the second
time the change is made just after that cycle, and the scheduler decides at the same moment.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.explain.question import LATER, NOT, PATIENCE
from muster.core.reservations import Backfill
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Assign, Decision, Evict, ExpectedStart, Wait
from muster.core.words.events import (
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    PodsEnded,
    QueueChanged,
)
from muster.core.words.gang import (
    Gang,
    GangId,
    Gather,
    Layer,
    NodeName,
    Place,
    PodSet,
    Queue,
    Shape,
    Strategy,
    Subgroup,
)
from muster.names import GPU, GPU_SHARE
from tests.core.words import amounts, assigns, bind, gang, node, pod, scheduler, shape, waits
from tests.tiers import examples

#: What happens at one time: gangs are submitted, or the gang that was submitted with that number ends.
Step = tuple[Gang | int, ...]


class Story:
    def __init__(self, config: Config, facts: Iterable[Event], steps: Iterable[Step]) -> None:
        self.core, self.now = Scheduler(config), 0.0
        self.decisions: list[Decision] = []
        self._submitted: list[GangId] = []
        for fact in facts:
            self.core.apply(fact)
        for number, step in enumerate(steps):
            if number:
                self.bind()
            self.now = 10.0 * number
            for each in step:
                if isinstance(each, Gang):
                    self._submitted.append(each.id)
                    self.core.apply(GangSubmitted(replace(each, submitted=self.now)))
                elif each < len(self._submitted):
                    self.end(self._submitted[each])
            self.decisions = self.settled()

    def settled(self) -> list[Decision]:
        """The decisions of now, once whatever was put off has had its turn."""
        decisions = self.core.decide(self.now)
        for _ in range(8):
            core = self.core
            if not (core.fit.exact.budget.behind or core.preemption.behind or core.wake_at()):
                break
            decisions += core.decide(self.now)
        return decisions

    def bind(self) -> None:
        for assign in assigns(self.decisions):
            for event in bind(self.core, assign):
                self.core.apply(replace(event, at=self.now + 1))

    def end(self, gang: GangId) -> None:
        state = self.core.world.gangs.get(gang)
        if state is not None:
            for pod in sorted(state.pods):
                self.core.apply(PodsEnded((pod,), self.now))
            self.core.apply(GangRemoved(gang))

    def gang(self, name: GangId) -> Gang:
        found = self.core.world.gangs[name].gang
        assert found is not None
        return found


def carry_out(story: Story, name: GangId, change: str) -> None:
    """Do what a remedy says, in the words in which it is said."""
    if match := re.fullmatch(r"when (\S+) ends", change):
        story.end(GangId(match[1]))
        return
    gang = story.gang(name)
    for pattern, edit in _EDITS:
        if match := re.fullmatch(pattern, change):
            story.core.apply(GangSubmitted(edit(gang, match)))
            return
    pytest.fail(f"no known way to carry out {change!r}")


def _resized(gang: Gang, counts: dict[str, int], was: dict[str, int], least: frozenset[str]) -> Gang:
    """`was`: what counted as wanted before. `least`: only their minimum becomes smaller."""

    def resized(pod_set: PodSet) -> PodSet:
        count = counts.get(pod_set.name)
        if count is None:
            return pod_set
        min_count = min(pod_set.min_count, count)
        return replace(pod_set, count=pod_set.count if pod_set.name in least else count, min_count=min_count)

    fewer = {name: was[name] - count for name, count in counts.items()}
    less = Counter[str]()
    for pod_set in gang.pod_sets:
        less[pod_set.subgroup] += fewer.get(pod_set.name, 0)
    subgroups = tuple(
        replace(each, min_count=max(each.min_count - less[each.name], 0)) for each in gang.subgroups
    )
    return replace(
        gang,
        pod_sets=tuple(map(resized, gang.pod_sets)),
        min_count=max(gang.min_count - less.total(), 0),
        subgroups=subgroups,
    )


def _smaller_gang(gang: Gang, match: re.Match[str]) -> Gang:
    (pod_set,) = gang.pod_sets
    count = int(match["count"])
    least = frozenset([pod_set.name] if match["least"] else [])
    was = max(pod_set.min_count, gang.min_count)
    return _resized(gang, {pod_set.name: count}, {pod_set.name: was}, least)


def _smaller_sets(gang: Gang, match: re.Match[str]) -> Gang:
    said = re.findall(r"(a minimum of )?(\d+) instead of (\d+) pods of (\w+)", match[0])
    counts = {name: int(count) for _, count, _, name in said}
    was = {name: int(before) for _, _, before, name in said}
    return _resized(gang, counts, was, frozenset(name for least, _, _, name in said if least))


def _cut(gang: Gang, match: re.Match[str]) -> Gang:
    said = re.findall(r"(?:(\w+) as )?(\d+) × (\d+) GPUs? instead of (\d+) × (\d+)", match[0])
    sets = {pod_set.name: pod_set for pod_set in gang.pod_sets}
    more: Counter[str] = Counter()
    for name, new, _, old, before in said:
        pod_set = sets[name or gang.pod_sets[0].name]
        factor = int(new) // int(old)
        more[pod_set.subgroup] += int(new) - int(old)
        sets[pod_set.name] = replace(
            pod_set,
            shape=shape(gpu=int(before) // factor),
            count=pod_set.count * factor,
            min_count=pod_set.min_count * factor,
        )
    subgroups = tuple(replace(each, min_count=each.min_count + more[each.name]) for each in gang.subgroups)
    least = gang.min_count + more.total()
    return replace(gang, pod_sets=tuple(sets.values()), min_count=least, subgroups=subgroups)


def _without(rule: Callable[[Gather], bool]) -> Callable[[Gang, re.Match[str]], Gang]:
    def edit(gang: Gang, match: re.Match[str]) -> Gang:
        first = next(each for each in gang.gather if rule(each))
        return replace(gang, gather=tuple(each for each in gang.gather if each is not first))

    return edit


_EDITS: list[tuple[str, Callable[[Gang, re.Match[str]], Gang]]] = [
    (r"with (?P<least>a minimum of )?\d+ GPUs? \((?P<count>\d+) × \d+\)", _smaller_gang),
    (r"with (?P<least>a minimum of )?(?P<count>\d+) pods?", _smaller_gang),
    (r"with (a minimum of )?\d+ instead of .* pods of .*", _smaller_sets),
    (r"with .* × .* instead of .*", _cut),
    (r"without having to be in one rack", _without(lambda rule: rule.strategy is Strategy.MUST_GATHER)),
    (r"without multiples of \d+ per rack", _without(lambda rule: rule.multiple > 1)),
    (r"without a rack of its own", lambda gang, _: replace(gang, exclusive="")),
    (r"without any rule about the topology", lambda gang, _: replace(gang, gather=(), exclusive="")),
    (r"in queue (\S+)", lambda gang, match: replace(gang, queue=match[1])),
    (r"if it might preempt .*", lambda gang, _: replace(gang, preempts=True)),
]


POD_SETS = st.builds(
    lambda gpu, count, least: (gpu, count, min(least, count)),
    st.sampled_from([0, 1, 1, 2, 2, 3, 4]),
    st.integers(1, 4),
    st.integers(0, 4),
)
GATHER = st.sampled_from(
    [()] * 6
    + [(Gather("rack", Strategy.MUST_GATHER),), (Gather("rack", None, 2),)]
    + [(Gather("rack", Strategy.MUST_GATHER), Gather("rack", None, 2))]
)


@st.composite
def gangs(draw: st.DrawFn, name: str, queues: list[str]) -> Gang:
    drawn = draw(st.lists(POD_SETS, min_size=1, max_size=draw(st.sampled_from([2, 2, 3]))))
    # the first set, or the first two, may be a subgroup
    joint = draw(st.sampled_from([0] * 3 + [1, 2]))
    sets = tuple(
        PodSet(f"s{i}", shape(gpu=g), n, least, subgroup="j" if i < joint else "")
        for i, (g, n, least) in enumerate(drawn)
    )
    few, many = sum(s.min_count for s in sets[:joint]), sum(s.count for s in sets[:joint])
    subgroups = (Subgroup("j", draw(st.integers(few, many))),) if joint else ()
    low, high = sum(s.min_count for s in sets), sum(s.count for s in sets)
    low += sum(each.min_count - few for each in subgroups)
    seconds = st.sampled_from([None, None, 15.0, 40.0, 100.0])
    return Gang(
        GangId(name),
        sets,
        draw(st.sampled_from([max(low, 1), high])),
        0.0,
        priority=draw(st.sampled_from([0, 0, 0, 1])),
        queue=draw(st.sampled_from(queues)),
        gather=draw(GATHER),
        exclusive=draw(st.sampled_from(["", "", "", "", "rack"])),
        limit=draw(seconds),
        estimate=draw(seconds),
        preempts=draw(st.booleans()),
        preemptible=draw(st.sampled_from([True, True, False])),
        subgroups=subgroups,
    )


def queue_rules(names: list[str]) -> st.SearchStrategy[list[Queue]]:
    return st.tuples(
        *(
            st.builds(
                Queue,
                st.just(name),
                weight=st.integers(1, 3),
                capability=st.sampled_from([(), (), amounts({GPU: 6}), amounts({PODS: 5})]),
                reclaimable=st.booleans(),
                closed=st.sampled_from([False] * 9 + [True]),
                max_gangs=st.sampled_from([None, None, None, 2]),
            )
            for name in names
        )
    ).map(list)


@st.composite
def stories(draw: st.DrawFn) -> tuple[Config, list[Event], list[Step]]:
    gpus = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    nodes: list[NodeChanged] = [
        node(f"n{i}", gpu=g, labels={"rack": f"r{i // 2}"} if i < 3 else {}) for i, g in enumerate(gpus)
    ]
    names = ["default", *draw(st.sampled_from([[], [], ["a"], ["a", "b"]]))]
    rules = draw(queue_rules(names[1:]))
    facts: list[Event] = [LayersChanged((Layer("rack", ("rack",)),)), *nodes, *map(QueueChanged, rules)]
    number = draw(st.integers(2, 8))
    told = [draw(gangs(f"g{i}", names)) for i in range(number)]
    steps: list[Step] = [()]
    for each in told:
        if draw(st.booleans()) and steps[-1]:
            steps.append(())
        steps[-1] = (*steps[-1], each)
        if draw(st.integers(0, 5)) == 0:
            steps[-1] = (*steps[-1], draw(st.integers(0, number - 1)))
    backfill = draw(st.sampled_from([Backfill.EASY] * 4 + [*Backfill]))
    return Config(backfill=backfill, drain_after=15.0, remedies=20, trials=10_000), facts, steps


def reserved_until_its_queue_shrank() -> tuple[Config, list[Event], list[Step]]:
    """A gang whose queue is entitled to less since another queue has gangs: its reservation is over."""
    alone = Gang(GangId("g0"), (PodSet("s0", Shape(()), 1),), 1, 0.0, exclusive="rack", preempts=False)
    runs = replace(alone, id=GangId("g1"), priority=1, estimate=15.0)
    sets = PodSet("s0", shape(gpu=1), 1), PodSet("s1", shape(gpu=1), 1)
    reserved = Gang(GangId("g2"), sets, 2, 0.0, priority=1, preempts=False)
    other = replace(reserved, id=GangId("g3"), priority=0, queue="a")
    facts: list[Event] = [
        LayersChanged((Layer("rack", ("rack",)),)),
        node("n0", gpu=2, labels={"rack": "r0"}),
        QueueChanged(Queue("a", reclaimable=False)),
    ]
    config = Config(backfill=Backfill.CONSERVATIVE, drain_after=15.0, remedies=20, trials=10_000)
    return config, facts, [(alone, runs, reserved), (other,)]


def taken_by_a_search_beside_a_reservation() -> tuple[Config, list[Event], list[Step]]:
    """When r1 ends, "front" fits beside the reservation of "first", which only a search finds.

    It takes what r1 leaves, so that "last" does not start then.
    """

    def told(name: str, *sets: tuple[int, int], on: str = "", estimate: float | None = None) -> Gang:
        selector = {"name": on} if on else None
        pod_sets = tuple(
            PodSet(f"s{i}", shape(gpu=gpu, selector=selector), count, count)
            for i, (gpu, count) in enumerate(sets)
        )
        least = sum(count for _, count in sets)
        return Gang(GangId(name), pod_sets, least, 0.0, estimate=estimate, preempts=False)

    facts: list[Event] = [
        node(name, gpu=gpu, labels={"name": name}) for name, gpu in (("n0", 4), ("n1", 5), ("n2", 8))
    ]
    run = told("r1", (2, 1), on="n1"), told("r2", (1, 1), on="n2", estimate=100.0)
    wait = told("first", (8, 1)), told("front", (3, 1), (2, 3)), told("last", (5, 1))
    return Config(drain_after=1000.0, remedies=20, trials=10_000), facts, [run, wait]


def a_rack_beyond_the_cap() -> tuple[Config, list[Event], list[Step]]:
    """The free rack costs more than either queue may use; the cheap one is free once g0 and g1 have ended."""

    def told(name: str, queue: str = "default", exclusive: str = "", limit: float | None = None) -> Gang:
        sets = (PodSet("s0", Shape(()), 1),)
        return Gang(GangId(name), sets, 1, 0.0, queue=queue, exclusive=exclusive, limit=limit, preempts=False)

    facts: list[Event] = [
        LayersChanged((Layer("rack", ("rack",)),)),
        node("n0", gpu=1, labels={"rack": "r0"}),
        node("n1", gpu=7, labels={"rack": "r1"}),
        *(QueueChanged(Queue(name, capability=amounts({GPU: 6}))) for name in ("a", "b")),
    ]
    run = told("g0", limit=40.0), told("g1", limit=100.0)
    return Config(remedies=20, trials=10_000), facts, [(*run, told("g2", "b", "rack"))]


def a_rack_beyond_the_share() -> tuple[Config, list[Event], list[Step]]:
    """Two gangs want a rack of their own. Their queue is entitled to the cheap one; the other it may borrow.

    That is free once g0 ends. Queue a lowers their share: its second gang waits for the node of its first.
    """

    def told(name: str, queue: str, gpu: int, node: str = "", exclusive: str = "") -> Gang:
        sets = (PodSet("s0", shape(gpu=gpu, selector={"name": node} if node else None), 1),)
        return Gang(GangId(name), sets, 1, 0.0, queue=queue, exclusive=exclusive, preempts=False)

    facts: list[Event] = [
        LayersChanged((Layer("rack", ("rack",)),)),
        node("n0", gpu=1, cpu=0, memory=0, labels={"rack": "r0", "name": "n0"}),
        node("n1", gpu=7, cpu=0, memory=0, labels={"rack": "r1", "name": "n1"}),
        node("n2", gpu=8, cpu=0, memory=0, labels={"name": "n2"}),
        QueueChanged(Queue("a", weight=3)),
        QueueChanged(Queue("b")),
    ]
    run = told("g0", "default", 0, "n1"), told("g1", "default", 0, "n0"), told("g2", "a", 8, "n2")
    wait = (
        told("g3", "a", 8, "n2"),
        told("g4", "b", 1, exclusive="rack"),
        told("g5", "b", 1, exclusive="rack"),
    )
    return Config(remedies=20, trials=10_000), facts, [run, wait]


@given(stories())
@example(reserved_until_its_queue_shrank())
@example(taken_by_a_search_beside_a_reservation())
@example(a_rack_beyond_the_cap())
@example(a_rack_beyond_the_share())
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_remedy_starts_its_gang(drawn: tuple[Config, list[Event], list[Step]]) -> None:
    story = Story(*drawn)
    held_back = {d.gang for d in story.decisions if isinstance(d, Wait)}
    for name in sorted(held_back):
        state = story.core.world.gangs.get(name)
        explanation = state.explanation if state is not None else None
        for remedy in explanation.remedies if explanation is not None else ():
            again = Story(*drawn)
            if remedy.effect == NOT:
                again.core.apply(GangSubmitted(replace(again.gang(name), preempts=True)))
                ended = [each.beneficiary for each in again.settled() if isinstance(each, Evict)]
                assert name not in ended, f"{name} was told {remedy}"
                continue
            carry_out(again, name, remedy.change)
            started = [assign.gang for assign in assigns(again.settled())]
            assert name in started, f"{name} was told it {remedy.effect} {remedy.change}: {explanation}"


def test_a_gang_with_a_rack_of_its_own_starts_in_a_rack_that_its_queue_may_use() -> None:
    """Its queue allows it the cheap rack: not when the first of two gangs there ends, but after both."""
    [wait] = waits(Story(*a_rack_beyond_the_cap()).decisions)
    assert [remedy.change for remedy in wait.explanation.remedies] == ["in queue default"]
    assert wait.explanation.expected_start is not None
    assert wait.explanation.expected_start.at == 100.0


def test_a_gang_with_a_rack_of_its_own_borrows_what_that_costs_beyond_the_share_of_its_queue() -> None:
    told = {wait.gang: wait.explanation for wait in waits(Story(*a_rack_beyond_the_share()).decisions)}
    ends = {name: [each.change for each in told[name].remedies if each.effect == LATER] for name in told}
    assert ends == {"g3": ["when g2 ends"], "g4": ["when g0 ends"], "g5": []}


@given(stories())
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_asking_changes_nothing(drawn: tuple[Config, list[Event], list[Step]]) -> None:
    config, facts, steps = drawn
    asked, silent = Story(config, facts, steps), Story(replace(config, explain=False), facts, steps)
    untold = [decision for decision in asked.decisions if not isinstance(decision, Wait)]
    assert untold == [decision for decision in silent.decisions if not isinstance(decision, Wait)]
    for name, account in asked.core.world.queues.accounts.items():
        same = silent.core.world.queues.accounts[name]
        assert (account.used, account.last_borrowed) == (same.used, same.last_borrowed)
    assert (asked.core.world.nodes.used == silent.core.world.nodes.used).all()


def reserved_at_once() -> tuple[Config, list[Event], list[Step]]:
    """Reservations that begin in the cycle for which the dry run is made, one of them for a rack alone."""
    small = [Gang(GangId(f"g{i}"), (PodSet("s0", Shape(()), 1, 0),), 1, 0.0) for i in range(8)]
    small[5] = replace(small[5], exclusive="rack")
    facts: list[Event] = [
        LayersChanged((Layer("rack", ("rack",)),)),
        node("n0", gpu=1, labels={"rack": "r0"}),
    ]
    config = Config(backfill=Backfill.CONSERVATIVE, drain_after=15.0, remedies=20, trials=10_000)
    return config, facts, [(small[0], 0, small[1], 0, *small[2:6]), (small[6],), (small[7],)]


def infeasible_ones_of_two_queues() -> tuple[Config, list[Event], list[Step]]:
    """Two that never fit, of two queues: neither decides which queue is next while the others are asked."""
    facts: list[Event] = [node("n0", gpu=1), node("n1", gpu=2), QueueChanged(Queue("b"))]
    asked = [("g0", 0, 1, ""), ("g1", 1, 1, ""), ("g2", 2, 2, "b"), ("g3", 3, 1, ""), ("g4", 1, 3, "b")]
    told = tuple(
        Gang(GangId(name), (PodSet("s0", shape(gpu=gpu), count, 0),), count, 0.0, queue=queue or "default")
        for name, gpu, count, queue in asked
    )
    return Config(remedies=20, trials=10_000), facts, [told]


def first_by_reservation() -> tuple[Config, list[Event], list[Step]]:
    """Two gangs that borrow may pass the reserved gang; an older one is refused, and decides no turn."""

    def told(name: str, gpu: int, queue: str, limit: float | None = None) -> Gang:
        pod_sets = (PodSet("s0", shape(gpu=gpu), 1),)
        return Gang(GangId(name), pod_sets, 1, 0.0, queue=queue, limit=limit, preempts=False)

    run = told("g0", 4, "default", 100.0), told("g1", 4, "default", 15.0)
    wait = told("g2", 7, "c"), told("g3", 4, "a"), told("g4", 2, "a", 10.0), told("g5", 3, "b", 10.0)
    queues = Queue("a"), Queue("b"), Queue("c", weight=100)
    return Config(remedies=20, trials=10_000), [node("n0", gpu=8), *map(QueueChanged, queues)], [run, wait]


def searched_before() -> tuple[Config, list[Event], list[Step]]:
    """What an earlier step left to an exact search is known not to fit once more is in use."""

    def told(name: str, *sets: tuple[int, int], queue: str = "a", exclusive: str = "") -> Gang:
        pod_sets = tuple(PodSet(f"s{i}", shape(gpu=gpu), count, 0) for i, (gpu, count) in enumerate(sets))
        least = sum(count for _, count in sets)
        return Gang(GangId(name), pod_sets, least, 0.0, queue=queue, exclusive=exclusive, preempts=False)

    racked = {"rack": "r0"}
    facts: list[Event] = [
        LayersChanged((Layer("rack", ("rack",)),)),
        node("n0", gpu=6, labels=racked),
        node("n1", gpu=6, labels=racked),
        QueueChanged(Queue("a", weight=3)),
    ]
    alone = told("g2", (1, 1), exclusive="rack")
    others = told("g3", (0, 1), (4, 2)), told("g4", (2, 2), queue="default"), told("g5", (3, 1), (1, 2))
    first = replace(alone, id=GangId("g6"), priority=1)
    return Config(drain_after=15.0, remedies=20, trials=10_000), facts, [(alone, *others, first)]


def reserved_when_another_has_started() -> tuple[Config, list[Event], list[Step]]:
    """Once "first" has started, "second" gets a reservation, which holds up "front" of higher priority.

    The reservation counts when "first" ends, also if nothing is asked about a gang behind "second".
    """

    def told(name: str, gpu: int, priority: int = 0) -> Gang:
        sets = (PodSet("s0", shape(gpu=gpu), 1),)
        return Gang(GangId(name), sets, 1, 0.0, priority=priority, preempts=False)

    steps = [
        (told("runs", 9),),
        (told("second", 8), told("first", 10)),
        (told("front", 6, priority=1), told("behind", 8)),
    ]
    config = Config(backfill=Backfill.CONSERVATIVE, drain_after=10.0, remedies=20, trials=10_000)
    return config, [node("n0", gpu=10)], list[Step](steps)


def test_an_outlook_counts_with_the_reservation_that_its_gang_will_have() -> None:
    """As it is played: each ends, and the next one starts."""
    story = Story(*reserved_when_another_has_started())
    dry_run, name = story.core._explainer._remedies._dry_run, GangId("second")
    told = dry_run.outlooks([story.core.world.gangs[name]], 10_000, sys.maxsize, beyond=True)[name]
    assert told is not None
    assert told.endless == ("runs", "first")
    for ends, starts in (("runs", "first"), ("first", "second"), ("second", "front")):
        story.end(GangId(ends))
        story.decisions = story.settled()
        assert [assign.gang for assign in assigns(story.decisions)] == [starts]
        story.bind()


@given(stories())
@example(reserved_at_once())
@example(reserved_when_another_has_started())
@example(first_by_reservation())
@example(searched_before())
@example(infeasible_ones_of_two_queues())
@example(a_rack_beyond_the_share())
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_dry_run_of_several_gangs_answers_each_as_if_it_were_alone(
    drawn: tuple[Config, list[Event], list[Step]],
) -> None:
    core = Story(*drawn).core
    dry_run = core._explainer._remedies._dry_run
    asked = [state for state in core.served if state.waits]
    for first in range(len(asked)):
        for beyond in (False, True):
            for name, outlook in dry_run.outlooks(asked[first:], 10_000, sys.maxsize, beyond=beyond).items():
                alone = dry_run.outlooks([core.world.gangs[name]], 10_000, sys.maxsize, beyond=beyond)
                assert alone == {name: outlook}
        for other in [state for state in core.world.gangs.values() if state.pods]:
            for name, starts in dry_run.starts_without(other, asked[first:], 10_000).items():
                assert dry_run.starts_without(other, [core.world.gangs[name]], 10_000) == {name: starts}


@given(stories(), st.integers(0, 400))
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_outlook_that_stops_early_is_not_known_or_the_same(
    drawn: tuple[Config, list[Event], list[Step]], steps: int
) -> None:
    core = Story(*drawn).core
    dry_run, nodes = core._explainer._remedies._dry_run, core.world.nodes
    asked = [state for state in core.served if state.waits]
    for beyond in (False, True):
        for first in range(len(asked)):
            told = dry_run.outlooks(asked[first:], 10_000, nodes.steps + steps, beyond=beyond)
            for name, outlook in told.items():
                alone = dry_run.outlooks([core.world.gangs[name]], 10_000, sys.maxsize, beyond=beyond)
                assert outlook is None or alone == {name: outlook}


@pytest.mark.parametrize("apart", [0.0, 1.0], ids=["at one time", "one by one"])
def test_an_outlook_behind_many_gangs_takes_no_more_steps_than_behind_a_few(apart: float) -> None:
    def taken(many: int) -> tuple[int, ExpectedStart | None]:
        """The steps of a cycle behind so many gangs, and what a gang is told of its start."""
        one = shape(gpu=1)
        running = [replace(gang(f"r{i}", of=one), limit=100.0 + apart * i) for i in range(many)]
        core = scheduler([node(f"n{i}", 1) for i in range(many)], *running)
        for i, each in enumerate(running):
            bind(core, Assign(each.id, {Place("main", 0): NodeName(f"n{i}")}))
        first = gang("first", count=many, of=one, submitted=1.0)
        core.apply(GangSubmitted(first))
        core.apply(GangSubmitted(replace(first, id=GangId("second"), submitted=2.0)))
        before = core.world.nodes.steps
        told = {wait.gang: wait.explanation for wait in waits(core.decide(3.0))}
        return core.world.nodes.steps - before, told[GangId("second")].expected_start

    few, start = taken(8)
    assert start is not None
    many, not_known = taken(PATIENCE // 2)
    assert not_known is None
    assert many <= few + 2 * PATIENCE


def test_a_dry_run_restores_the_account_of_a_gang_that_gives_up_held_places() -> None:
    two = shape(gpu=2)
    other, behind = gang("other", of=shape(gpu=4)), gang("behind", of=two, submitted=1.0)
    core = scheduler([node("n", 6)], gang("lost", count=2, of=two), other, behind)
    for name in ("lost", "other"):
        bind(core, Assign(GangId(name), {Place("main", 0): NodeName("n")}))
    core.apply(PodsEnded((pod("lost", Place("main", 0)),), 1.0))
    core.decide(2.0)
    dry_run = core._explainer._remedies._dry_run
    waiting = [state for state in core.served if state.waits]
    starting = dry_run.starts_without(core.world.gangs[other.id], waiting, 10_000)
    assert starting == {"lost": True, "behind": True}
    account = core.world.queues.find("default")
    assert account is not None
    assert account.used == {PODS: 2, GPU_SHARE: 6000}

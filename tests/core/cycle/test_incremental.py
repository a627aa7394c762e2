"""Cycles that visit only newcomers decide the same as cycles that visit all gangs, or that explain."""

import random
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.reservations import Backfill
from muster.core.words.decisions import Assign, Decision, Evict, Reserve, Wait
from muster.core.words.events import (
    Event,
    Footprint,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    PodsBound,
    PodsEnded,
    QueueChanged,
    QueueRemoved,
    QuotaChanged,
    QuotaRemoved,
)
from muster.core.words.gang import (
    Gang,
    GangId,
    Gather,
    HostPort,
    Layer,
    NodeName,
    Operator,
    Place,
    PodId,
    PodSet,
    PodTerm,
    Queue,
    QueueOrder,
    Requirement,
    Shape,
    Strategy,
)
from tests.core.words import GPU, amounts, assigns, bind, gang, node, pod, shape, started
from tests.tiers import examples

ALIKE = (Requirement("app", Operator.IN, ("x",)),)
SHAPES = [
    *[shape(gpu=1), shape(gpu=1, cpu=2), shape(gpu=2)] * 4,
    shape(gpu=3),
    shape(share=400),
    Shape(amounts({GPU: 1}), ports=(HostPort(80),)),
    Shape(amounts({GPU: 1}), pod_affinity=(PodTerm("rack", ALIKE, ("ns",)),)),
    Shape(amounts({GPU: 1}), pod_anti_affinity=(PodTerm("rack", ALIKE, ("ns",)),)),
]
QUEUES = [
    *[Queue("default")] * 2,
    *[Queue("default", order=order) for order in QueueOrder],
    Queue("default", closed=True),
    Queue("default", capability=amounts({GPU: 5})),
    Queue("default", deserved=amounts({GPU: 3})),
    Queue("default", max_gangs=3),
    Queue("default", namespaces=("ns",)),
    Queue("other", weight=2),
]


class Story:
    """What happens to a cluster, drawn from a seed: mostly that gangs come, now and then anything."""

    def __init__(self, seed: int, config: Config) -> None:
        self.random = random.Random(seed)
        self.core, self.watchful = Scheduler(config), Scheduler(config)
        self.watchful._incremental.lasts = lambda now: None  # type: ignore[method-assign]
        self.telling = Scheduler(replace(config, explain=True))
        self.now = 0.0
        self.gangs: dict[GangId, Gang] = {}
        self.running: dict[GangId, list[Place]] = {}
        #: how uniform the gangs are, and how often anything else happens
        self.odd, self.stirs = self.random.choice([0.0, 0.0, 0.1, 0.4]), self.random.choice([0.0, 0.02, 0.1])
        self.priorities = self.random.choice([(0,), (0,), (0, 0, 1), (0, 0, 0, 1, -1)])
        self.tell(LayersChanged((Layer("rack", ("rack",)),)))
        for i in range(self.random.randint(1, 4)):
            self.tell(node(f"n{i}", gpu=self.random.randint(2, 6), cpu=12, labels={"rack": f"r{i % 2}"}))

    def tell(self, event: Event) -> None:
        self.core.apply(event)
        self.watchful.apply(event)
        self.telling.apply(event)

    def step(self) -> None:
        self.now += self.random.choice([0.0, 0.0, 1.0, 1.0, 1.0, 9.0])
        draw = self.random.random()
        if draw < self.stirs:
            self.stir()
        elif draw < 0.25 and self.running:
            self.end(self.random.choice(sorted(self.running)))
        for _ in range(self.random.choice([0, 1, 1, 1, 3])):
            self.come()
        decided = self.core.decide(self.now)
        assert decided == self.watchful.decide(self.now)
        assert acts(decided) == acts(self.telling.decide(self.now))
        for decision in decided:
            self.obey(decision)

    def obey(self, decision: Decision) -> None:
        match decision:
            case Assign() if self.random.random() < 0.97:
                for event in bound(self.core, decision, self.now):
                    self.tell(event)
                self.running.setdefault(decision.gang, []).extend(decision.nodes)
            case Evict():
                for victim in decision.victims:
                    places = self.running[victim.gang]
                    gone = victim.pods or {pod(victim.gang, place) for place in places}
                    self.running[victim.gang] = [p for p in places if pod(victim.gang, p) not in gone]
                    self.tell(PodsEnded(tuple(sorted(gone)), self.now))
            case _:
                pass

    def come(self) -> None:
        number = len(self.gangs)
        count = self.random.randint(1, 5)
        rare = self.random.random() < self.odd
        of = self.random.choice(SHAPES if rare else SHAPES[:3])
        sets = [PodSet("main", of, count, self.random.randint(0, count) if rare else count, (("app", "x"),))]
        if rare and self.random.random() < 0.3:
            sets.append(PodSet("more", self.random.choice(SHAPES[:3]), 2, 2))
        if rare and self.random.random() < 0.3:
            sets[0] = replace(sets[0], uncreated=count, quotas=(("compute", (("pods", 1),)),))
        came = replace(
            gang(f"g{number:03}", *sets, minimum=sum(each.min_count for each in sets), submitted=self.now),
            priority=self.random.choice(self.priorities),
            queue=self.random.choice(["default", "default", "other"]) if rare else "default",
            namespace=self.random.choice(["ns", "else"]) if rare else "ns",
            limit=self.random.choice([None, 3.0] if rare else [20.0, 60.0, 200.0]),
            min_run_time=self.random.choice([0.0, 5.0]),
            preempts=self.random.random() < 0.5,
            gather=(Gather("rack", Strategy.MUST_GATHER),) if rare and self.random.random() < 0.2 else (),
        )
        self.gangs[came.id] = came
        self.tell(GangSubmitted(came))

    def end(self, name: GangId) -> None:
        ended = tuple(pod(name, place) for place in self.running.pop(name))
        self.tell(GangRemoved(name))
        self.tell(PodsEnded(ended, self.now))

    def stir(self) -> None:
        some = self.gangs[self.random.choice(sorted(self.gangs))] if self.gangs else None
        match self.random.randint(0, 6):
            case 0:
                self.tell(QueueRemoved("other"))
                self.tell(QueueChanged(self.random.choice(QUEUES)))
            case 1:
                self.tell(QuotaChanged("ns", "compute", (("pods", self.random.randint(0, 9)),)))
            case 2:
                self.tell(QuotaRemoved("ns", "compute"))
            case 3:
                name = f"n{self.random.randint(0, 4)}"
                self.tell(node(name, gpu=self.random.randint(0, 6), cpu=12, labels={"rack": "r1"}))
            case 4:
                foreign = PodId(f"foreign-{len(self.gangs)}-{self.now}")
                seen = Footprint("ns", (("app", "x"),))
                self.tell(PodsBound({foreign: None}, NodeName("n0"), amounts({GPU: 1}), footprint=seen))
            case 5 if some is not None and some.id not in self.running:
                self.tell(GangRemoved(some.id))
            case 6 if some is not None:
                self.gangs[some.id] = edited = replace(
                    some, limit=self.random.choice([None, 2.0, 60.0]), priority=self.random.choice([0, 1])
                )
                self.tell(GangSubmitted(edited))
            case _:
                pass


def acts(decisions: list[Decision]) -> list[Decision]:
    return [decision for decision in decisions if not isinstance(decision, Wait)]


def bound(core: Scheduler, assign: Assign, at: float) -> list[PodsBound]:
    gang = core.world.gangs[assign.gang].gang
    assert gang is not None
    requests = {each.name: each.shape.requests for each in gang.pod_sets}
    return [
        PodsBound({pod(gang.id, place): place}, on, requests[place.pod_set], gang.id, at=at)
        for place, on in sorted(assign.nodes.items())
    ]


@given(
    st.integers(0, 2**32),
    st.sampled_from([*[Backfill.EASY] * 4, Backfill.NONE, Backfill.NONE, *Backfill]),
    st.booleans(),
)
@example(610, Backfill.EASY, False)  # a victim's share of a GPU, and it would end before the promised time
@settings(max_examples=examples(30), deadline=None)
def test_it_makes_no_difference(seed: int, backfill: Backfill, shortest_first: bool) -> None:
    config = Config(explain=False, backfill=backfill, drain_after=9.0, shortest_first=shortest_first)
    story = Story(seed, config)
    for _ in range(30):
        story.step()


def lasting(name: str, gpu: int, limit: float, *, at: float = 0.0, priority: int = 0) -> GangSubmitted:
    alike = gang(name, of=shape(gpu=gpu), submitted=at, priority=priority)
    return GangSubmitted(replace(alike, limit=limit))


def full() -> Scheduler:
    """Of 4 GPUs 1 is free until 100; then `wide` has all of them, and `narrow` is too wide for one."""
    core = Scheduler(Config(explain=False))
    core.apply(node("n", gpu=4))
    core.apply(lasting("long", 3, 100.0, priority=1))
    (assign,) = assigns(core.decide(0.0))
    bind(core, assign)
    core.apply(lasting("wide", 4, 10.0, at=1.0))
    core.apply(lasting("narrow", 2, 10.0, at=2.0))
    assert reserved(core.decide(2.0)) == [("wide", 100.0)]
    return core


def reserved(decisions: list[Decision]) -> list[tuple[str, float]]:
    return [(each.gang, each.start) for each in decisions if isinstance(each, Reserve)]


def looked_at(core: Scheduler) -> list[str]:
    return [state.id for state in core.served]


def test_only_newcomers_are_visited() -> None:
    core = full()
    core.apply(lasting("lengthy", 1, 500.0, at=3.0))
    assert core.decide(3.0) == []
    assert looked_at(core) == []
    core.apply(lasting("brief", 1, 50.0, at=4.0))
    assert started(core.decide(4.0)) == ["brief"]
    assert looked_at(core) == ["brief"]


def crowded() -> tuple[Scheduler, dict[str, Assign]]:
    """Of 6 GPUs 1 is free; `wide` has 5 once `short`, `middle` and `long` have ended, and three more wait."""
    core, running = Scheduler(Config(explain=False)), {}
    core.apply(node("n", gpu=6))
    for name, gpu, limit in (("short", 1, 50.0), ("middle", 2, 100.0), ("long", 2, 200.0)):
        core.apply(lasting(name, gpu, limit))
        (running[name],) = assigns(core.decide(0.0))
        bind(core, running[name])
    core.apply(lasting("wide", 5, 10.0, at=1.0))
    core.apply(lasting("lengthy", 2, 500.0, at=2.0))
    core.apply(lasting("four", 4, 10.0, at=3.0))
    core.apply(lasting("two", 2, 10.0, at=4.0))
    assert reserved(core.decide(4.0)) == [("wide", 200.0)]
    return core, running


def end(core: Scheduler, assign: Assign, at: float) -> list[Decision]:
    core.apply(GangRemoved(assign.gang))
    core.apply(PodsEnded(tuple(sorted(pod(assign.gang, place) for place in assign.nodes)), at))
    return core.decide(at)


def test_when_room_gets_free_only_gangs_that_fit_in_it_are_visited() -> None:
    core, running = crowded()
    assert started(end(core, running["short"], 5.0)) == ["two"]
    assert looked_at(core) == ["two"]


def test_a_gang_that_freed_room_lets_start_earlier_is_visited() -> None:
    core, running = crowded()
    assert reserved(end(core, running["long"], 5.0)) == [("wide", 100.0)]
    assert looked_at(core) == ["wide", "two"]


def test_a_gang_that_ranks_before_the_reserved_one_takes_over_its_reservation() -> None:
    core = full()
    core.apply(lasting("urgent", 4, 10.0, at=3.0, priority=1))  # running gangs are no victims of it
    assert reserved(core.decide(3.0)) == [("urgent", 100.0)]


def test_when_the_reserved_gang_is_removed_the_next_is_visited() -> None:
    core = full()
    core.apply(GangRemoved(GangId("wide")))
    assert reserved(core.decide(3.0)) == [("narrow", 100.0)]
    core.apply(GangRemoved(GangId("narrow")))
    core.decide(4.0)
    core.apply(lasting("lengthy", 1, 500.0, at=5.0))
    assert started(core.decide(5.0)) == ["lengthy"]


def test_once_a_reservation_begins_all_gangs_are_visited() -> None:
    core = full()
    core.decide(100.0)
    assert looked_at(core) == ["wide"]


def test_a_gang_that_could_preempt_is_visited() -> None:
    core = Scheduler(Config(explain=False))
    core.apply(node("n", gpu=4))
    low = lasting("low", 4, 1000.0)
    core.apply(GangSubmitted(replace(low.gang, min_run_time=50.0)))
    (assign,) = assigns(core.decide(0.0))
    for event in bound(core, assign, at=1.0):
        core.apply(event)
    core.apply(lasting("high", 4, 10.0, at=1.0, priority=1))
    assert reserved(core.decide(1.0)) == [("high", 1001.0)]
    assert [type(decision) for decision in core.decide(60.0)][:1] == [Evict]

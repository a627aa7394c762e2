"""One tenant writes whatever marks there are; the other gets its share all the same, and loses none of it.

Both have a queue. Pods ask for one GPU, so they fit wherever a GPU is free.
"""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Evict
from muster.core.words.events import (
    BudgetChanged,
    Footprint,
    GangSubmitted,
    LayersChanged,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import Gang, GangId, Layer, Place, PodId
from muster.names import GPU, GPU_SHARE
from tests.core.queueing.test_queues import queue
from tests.core.words import amounts, gang, node
from tests.tiers import examples

GPUS = 8
NODES = 4


def rack(name: str, count: int, least: int, *, preemptible: bool) -> Gang:
    """A gang that has racks to itself, and more pods than it needs."""
    one = gang(name, count=count, minimum=least)
    return replace(one, queue="evil", exclusive="Rack", preemptible=preemptible)


def hostile(number: int) -> st.SearchStrategy[Gang]:
    """A gang with whatever its owner may write. It never ends, whatever it says of its run time."""
    return st.builds(
        lambda count, least, priority, exclusive, preemptible, time, cost, estimate, saved, grace: replace(
            gang(f"evil{number}", count=count, minimum=min(least, count)),
            queue="evil",
            priority=priority,
            exclusive=exclusive,
            preemptible=preemptible,
            min_run_time=time,
            restart_cost=cost,
            estimate=estimate,
            checkpointed=saved,
            checkpoint_grace=grace,
        ),
        st.integers(1, 12),
        st.integers(1, 12),
        st.sampled_from([-5, 0, 10**9]),
        st.sampled_from(["", "Rack", "NodeTopologyLayer"]),
        st.booleans(),
        st.sampled_from([0.0, 10.0**9]),
        st.sampled_from([0.0, 10.0**9]),
        st.sampled_from([None, 0.0, 3.0, 10.0**9]),
        st.sampled_from([None, 0.0, 10.0**9]),
        st.sampled_from([0.0, 600.0]),
    )


class Cluster:
    """A scheduler whose decisions are carried out at once."""

    def __init__(self, cap: int | None, *, budget: bool = False) -> None:
        """`cap`: of the hostile queue; `budget`: a disruption budget forbids to evict any of its pods."""
        self.core, self.now = Scheduler(), 0.0
        self.pods: dict[PodId, GangId] = {}
        #: how often a gang of the honest queue was a victim
        self.lost = 0
        rules = {} if cap is None else {"capability": amounts({GPU: cap})}
        self.core.apply(LayersChanged((Layer("Rack", ("rack",)),)))
        for i in range(NODES):
            self.core.apply(node(f"n{i}", gpu=GPUS, labels={"rack": f"r{i // 2}"}))
        self.core.apply(queue("evil", **rules))
        self.core.apply(queue("good"))
        if budget:
            self.core.apply(BudgetChanged("evil", "all", (), 0))

    def submit(self, one: Gang) -> None:
        self.core.apply(GangSubmitted(one))

    def run(self) -> None:
        for _ in range(12):
            self.now += 2.0
            for decision in self.core.decide(self.now):
                if isinstance(decision, Evict):
                    for victim in decision.victims:
                        self.lost += str(victim.gang).startswith("good")
                        mine = [pod for pod, name in self.pods.items() if name == victim.gang]
                        gone = sorted(victim.pods or mine)
                        self.core.apply(PodsEnded(tuple(gone), self.now))
                        for pod in gone:
                            del self.pods[pod]
                if isinstance(decision, Assign):
                    for place, there in decision.nodes.items():
                        self._bind(decision.gang, place, str(there))
            self.check()

    def _bind(self, name: GangId, place: Place, there: str) -> None:
        pod = PodId(f"{name}-{place.index}-{self.now}")
        self.pods[pod] = name
        seen = Footprint("evil" if str(name).startswith("evil") else "good")
        where = node(there).name
        self.core.apply(PodsBound({pod: place}, where, amounts({GPU: 1}), name, at=self.now, footprint=seen))

    def check(self) -> None:
        """The queue is charged with all that its gangs keep from others, and with no more than its cap."""
        self.core.settle()
        account = self.core.world.queues.find("evil")
        assert account is not None
        kept = set[str]()
        used = 0
        for state in self.core.world.gangs.values():
            if state.gang is None or state.gang.queue != "evil":
                continue
            nodes = {str(name) for name in state.nodes}
            if state.gang.exclusive == "Rack":
                nodes |= {f"n{i}" for i in range(NODES) if f"n{i ^ 1}" in nodes}
            if state.gang.exclusive:
                kept |= nodes
            else:
                used += state.usage[GPU]
        assert account.used[GPU_SHARE] == 1000 * (GPUS * len(kept) + used)
        cap = account.caps.get(GPU_SHARE)
        assert cap is None or account.used[GPU_SHARE] <= cap


#: Two gangs have all racks, and could spare pods of which nobody else could use the room.
SPARING = (rack("evil0", 9, 7, preemptible=False), rack("evil1", 11, 4, preemptible=True))


#: Of both queues, of equal weight.
SHARE = GPUS * NODES // 2
EVIL = st.tuples(*map(hostile, range(5)))


@example(evil=SPARING, wanted=13, cap=None, budget=False)
@given(evil=EVIL, wanted=st.integers(0, SHARE), cap=st.sampled_from([None, 7, 16]), budget=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_the_other_tenant_gets_its_share(
    evil: tuple[Gang, ...], wanted: int, cap: int | None, budget: bool
) -> None:
    made = Cluster(cap, budget=budget)
    for one in evil:
        made.submit(one)
    made.run()
    for i in range(wanted):
        made.submit(replace(gang(f"good{i}"), queue="good"))
    made.run()
    names = list(made.pods.values())
    assert sum(str(name).startswith("good") for name in names) == wanted


@given(EVIL, st.lists(st.integers(1, 6), max_size=6), st.booleans(), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_gangs_within_a_share_start_and_are_never_evicted(
    evil: tuple[Gang, ...], sizes: list[int], first: bool, budget: bool
) -> None:
    """Whatever was promised to gangs of the other tenant by their run times, and whoever came first."""
    made = Cluster(None, budget=budget)
    within = [size for n, size in enumerate(sizes) if sum(sizes[: n + 1]) <= SHARE]
    good = [replace(gang(f"good{i}", count=size), queue="good") for i, size in enumerate(within)]
    for gangs in (good, evil) if first else (evil, good):
        for one in gangs:
            made.submit(one)
        made.run()
    assert sum(str(name).startswith("good") for name in made.pods.values()) == sum(within)
    assert made.lost == 0


@given(EVIL, st.integers(SHARE, GPUS * NODES), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_what_the_hostile_tenant_is_not_charged_for_is_left_to_the_other(
    evil: tuple[Gang, ...], wanted: int, budget: bool
) -> None:
    """Marks take from what the other borrows no more than they cost."""
    made = Cluster(None, budget=budget)
    good = [replace(gang(f"good{i}"), queue="good") for i in range(wanted)]
    for one in (*evil, *good):
        made.submit(one)
    made.run()
    account = made.core.world.queues.find("evil")
    assert account is not None
    left = GPUS * NODES - account.used[GPU_SHARE] // 1000
    assert sum(str(name).startswith("good") for name in made.pods.values()) >= min(wanted, left)

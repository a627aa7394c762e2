"""One tenant writes whatever marks there are; the other gets its share all the same.

Both have a queue. Gangs of the honest tenant are single pods of one GPU, so they fit wherever a GPU is free.
"""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Evict
from muster.core.words.events import GangSubmitted, LayersChanged, PodsBound, PodsEnded
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
    return st.builds(
        lambda count, least, priority, exclusive, preemptible, time, cost: replace(
            gang(f"evil{number}", count=count, minimum=min(least, count)),
            queue="evil",
            priority=priority,
            exclusive=exclusive,
            preemptible=preemptible,
            min_run_time=time,
            restart_cost=cost,
        ),
        st.integers(1, 12),
        st.integers(1, 12),
        st.sampled_from([-5, 0, 10**9]),
        st.sampled_from(["", "Rack", "NodeTopologyLayer"]),
        st.booleans(),
        st.sampled_from([0.0, 10.0**9]),
        st.sampled_from([0.0, 10.0**9]),
    )


class Cluster:
    """A scheduler whose decisions are carried out at once."""

    def __init__(self, cap: int | None) -> None:
        self.core, self.now = Scheduler(), 0.0
        self.pods: dict[PodId, GangId] = {}
        rules = {} if cap is None else {"capability": amounts({GPU: cap})}
        self.core.apply(LayersChanged((Layer("Rack", ("rack",)),)))
        for i in range(NODES):
            self.core.apply(node(f"n{i}", gpu=GPUS, labels={"rack": f"r{i // 2}"}))
        self.core.apply(queue("evil", **rules))
        self.core.apply(queue("good"))

    def submit(self, one: Gang) -> None:
        self.core.apply(GangSubmitted(one))

    def run(self) -> None:
        for _ in range(12):
            self.now += 2.0
            for decision in self.core.decide(self.now):
                if isinstance(decision, Evict):
                    for victim in decision.victims:
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
        event = PodsBound({pod: place}, node(there).name, amounts({GPU: 1}), name, at=self.now)
        self.core.apply(event)

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


@example(SPARING, 13, None)
@given(st.tuples(*map(hostile, range(5))), st.integers(0, 16), st.sampled_from([None, 7, 16]))
@settings(max_examples=examples(40), deadline=None)
def test_the_other_tenant_gets_its_share(evil: tuple[Gang, ...], wanted: int, cap: int | None) -> None:
    made = Cluster(cap)
    for one in evil:
        made.submit(one)
    made.run()
    for i in range(wanted):
        made.submit(replace(gang(f"good{i}"), queue="good"))
    made.run()
    names = list(made.pods.values())
    assert sum(str(name).startswith("good") for name in names) == wanted

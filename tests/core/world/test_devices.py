"""Shares of GPUs, device by device, against a model that is a list of numbers per node."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Explanation
from muster.core.words.events import (
    Footprint,
    GangRemoved,
    GangSubmitted,
    NodeChanged,
    NodeRemoved,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import Code, GangId, NodeName, Place, PodId, PodSet
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.nodes import Nodes
from muster.core.world.trial import Trial
from tests.core.words import assigns, bind, gang, node, scheduler, shape, waits, where
from tests.tiers import examples


@dataclass
class Model:
    """One node: its devices, how many of them are used as a whole, and what shares have taken of others."""

    count: int
    whole: int = 0
    shared: dict[int, int] = field(default_factory=dict)

    @property
    def empty(self) -> int:
        return self.count - self.whole - len(self.shared)

    def slots(self, share: int) -> int:
        if self.empty < 0:
            return 0
        devices = [1000] * self.empty + [1000 - used for used in self.shared.values()]
        return sum(max(left, 0) // share for left in devices)

    def best(self, share: int) -> int:
        fitting = [(1000 - used, i) for i, used in self.shared.items() if 1000 - used >= share]
        return min(fitting)[1] if fitting else next(i for i in range(99) if i not in self.shared)

    def change(self, share: int, device: int) -> None:
        self.shared[device] = self.shared.get(device, 0) + share
        if not self.shared[device]:
            del self.shared[device]


#: what happens: a pod comes (whole GPUs, a share, a share on record), the n-th goes, a node is resized, or
#: another comes; a mark is set, all since the last is undone or kept
steps = st.lists(
    st.one_of(
        st.tuples(st.just("whole"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("share"), st.integers(0, 2), st.integers(1, 1000)),
        st.tuples(st.just("record"), st.integers(0, 2), st.sampled_from([400, 1000])),
        st.tuples(st.just("end"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("resize"), st.integers(0, 2), st.integers(0, 4)),
        st.tuples(st.just("merge"), st.just(0), st.just(0)),
        st.tuples(st.sampled_from(["mark", "rollback", "commit"]), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
@settings(max_examples=examples(150), deadline=None)
def test_devices_are_what_a_naive_model_says(told: list[tuple[str, int, int]]) -> None:
    nodes = Nodes()
    ledger = Ledger(nodes)
    names = [NodeName(f"n{i}") for i in range(3)]
    models = [Model(2) for _ in names]
    for name in names:
        nodes.change(node(name, gpu=2))
    nodes.settle()
    pods: list[tuple[int, int, int, int | None]] = []
    marks: list[tuple[Trial, list[tuple[int, dict[int, int]]], list[tuple[int, int, int, int | None]]]] = []
    extra = 0
    for what, which, amount in told:
        if what == "whole":
            ledger.take(names[which], shape(gpu=amount).requests)
            models[which].whole += amount
            pods.append((which, amount, 0, None))
        elif what in ("share", "record"):
            on_record = amount // 400 if what == "record" else None
            device = ledger.take(names[which], shape(share=amount).requests, on_record)
            assert device == (models[which].best(amount) if on_record is None else on_record)
            models[which].change(amount, device)
            pods.append((which, 0, amount, device))
        elif what == "end" and pods:
            on, whole, share, device = pods.pop(which % len(pods))
            ledger.give(Charged(names[on], shape(gpu=whole, share=share).requests, device))
            models[on].whole -= whole
            if device is not None:
                models[on].change(-share, device)
        elif what == "resize":
            nodes.change(node(names[which], gpu=amount))
            models[which].count = amount
        elif what == "merge" and not marks:
            nodes.change(node(f"m{extra}", gpu=0))
            nodes.settle()
            extra += 1
        elif what == "mark":
            marks.append((ledger.log.trial(), [(m.whole, dict(m.shared)) for m in models], list(pods)))
        elif what == "rollback" and marks:
            trial, before, pods = marks.pop()
            trial.undo()
            for model, (whole, shared) in zip(models, before, strict=True):
                model.whole, model.shared = whole, shared
        elif what == "commit" and marks:
            marks.pop()[0].keep()
        for name, model in zip(names, models, strict=True):
            column = nodes.column[name]
            used = nodes.devices.used(name)
            assert {i: amount for i, amount in enumerate(used) if amount} == model.shared
            assert nodes.free_at(nodes.devices.row, column) == max(model.empty, -1)
            for share in (1, 250, 333, 1000, 1001):
                assert nodes.devices.slots(share, nodes.free(nodes.devices.row)).item(column) == model.slots(
                    share
                )
                empty = nodes.free_at(nodes.devices.row, column)
                assert nodes.devices.slots_at(share, empty, column) == model.slots(share)
            free = 1000 * max(model.empty, 0) + sum(max(1000 - used, 0) for used in model.shared.values())
            assert nodes.thousandths().item(column) == free
            assert nodes.thousandths_at(column) == free


def test_shares_fill_open_devices_before_others() -> None:
    muster = scheduler([node("a", gpu=2), node("b", gpu=2)], gang("ns/x", count=5, of=shape(share=300)))
    [assign] = assigns(muster.decide(0.0))
    assert where(assign) == ["a"] * 5
    assert [assign.devices[place] for place in sorted(assign.devices)] == [0, 0, 0, 1, 1]
    muster.apply(GangSubmitted(gang("ns/y", count=2, of=shape(gpu=1))))
    [assign] = assigns(muster.decide(0.0))
    assert where(assign) == ["b", "b"]
    assert not assign.devices


def test_one_gpu_is_shared_or_whole() -> None:
    muster = scheduler([node("a", gpu=1)], gang("ns/x", of=shape(share=1)))
    [assign] = assigns(muster.decide(0.0))
    bind(muster, assign)
    muster.apply(GangSubmitted(gang("ns/y", of=shape(gpu=1))))
    assert not assigns(muster.decide(1.0))
    muster.apply(GangRemoved(GangId("ns/x")))
    muster.apply(PodsEnded((PodId("ns/x:main/0"),), 2.0))
    [assign] = assigns(muster.decide(2.0))
    assert assign.gang == "ns/y"


def test_a_restart_knows_the_devices_that_are_on_record() -> None:
    muster = scheduler([node("a", gpu=2)])
    for i, (share, device) in enumerate([(600, 1), (300, 0), (300, 1)]):
        requests = shape(share=share).requests
        muster.apply(
            PodsBound({PodId(f"p{i}"): None}, NodeName("a"), requests, footprint=Footprint(device=device))
        )
    muster.apply(GangSubmitted(gang("ns/x", of=shape(share=100))))
    muster.apply(GangSubmitted(gang("ns/y", of=shape(share=200))))
    muster.apply(GangSubmitted(gang("ns/z", of=shape(share=600))))
    devices = {assign.gang: [*assign.devices.values()] for assign in assigns(muster.decide(0.0))}
    assert devices == {"ns/x": [1], "ns/y": [0]}


def test_a_pod_without_a_record_is_on_the_device_that_its_place_was_promised() -> None:
    muster = scheduler(
        [node("a", gpu=2)], gang("ns/x", of=shape(share=600)), gang("ns/y", of=shape(share=300))
    )
    muster.apply(GangSubmitted(gang("ns/z", of=shape(share=500))))
    made = {assign.gang: assign for assign in assigns(muster.decide(0.0))}
    assert {name: [*assign.devices.values()] for name, assign in made.items()} == {
        "ns/x": [0],
        "ns/y": [0],
        "ns/z": [1],
    }
    for assign in reversed(made.values()):
        bind(muster, assign)
    assert muster.world.nodes.devices.used(NodeName("a")) == [900, 500]


def test_a_pod_on_another_device_than_its_place_was_promised_is_charged_where_it_is() -> None:
    """As after a restart: an open plan says nothing of devices, but pods bear theirs."""
    muster = scheduler([node("a", gpu=2)], gang("ns/x", of=shape(share=600)))
    [assign] = assigns(muster.decide(0.0))
    assert assign.devices == {Place("main", 0): 0}
    requests, place = shape(share=600).requests, Place("main", 0)
    bound = PodsBound({PodId("p"): place}, NodeName("a"), requests, GangId("ns/x"), Footprint(device=1))
    muster.apply(bound)
    assert muster.world.nodes.devices.used(NodeName("a")) == [0, 600]
    muster.apply(GangRemoved(GangId("ns/x")))
    muster.apply(PodsEnded((PodId("p"),), 1.0))
    assert muster.world.nodes.devices.used(NodeName("a")) == []


def test_a_replacement_has_the_device_of_its_place() -> None:
    muster = scheduler(
        [node("a", gpu=2)], gang("ns/x", of=shape(share=600)), gang("ns/y", of=shape(share=600))
    )
    for assign in assigns(muster.decide(0.0)):
        bind(muster, assign)
    muster.apply(PodsEnded((PodId("ns/y:main/0"),), 1.0))
    assert muster.world.nodes.devices.used(NodeName("a")) == [600, 600]
    [assign] = assigns(muster.decide(1.0))
    assert (assign.gang, assign.devices) == ("ns/y", {Place("main", 0): 1})


def test_a_node_that_loses_a_gpu_takes_none() -> None:
    muster = scheduler([node("a", gpu=2)], gang("ns/x", count=2, of=shape(share=600)))
    [assign] = assigns(muster.decide(0.0))
    bind(muster, assign)
    muster.apply(node("a", gpu=1))
    muster.apply(GangSubmitted(gang("ns/y", of=shape(share=100))))
    [wait] = waits(muster.decide(1.0))
    assert wait.explanation.code is Code.INSUFFICIENT_CAPACITY
    assert wait.explanation.message.startswith("0.1 GPUs asked as 1 × 0.1; 0 are free")
    muster.apply(GangRemoved(GangId("ns/x")))
    muster.apply(PodsEnded((PodId("ns/x:main/0"),), 2.0))
    [assign] = assigns(muster.decide(2.0))
    assert assign.devices == {Place("main", 0): 1}


def test_a_node_that_comes_back_has_its_shares() -> None:
    muster = scheduler([node("a", gpu=1)], gang("ns/x", of=shape(share=600)))
    [assign] = assigns(muster.decide(0.0))
    bind(muster, assign)
    muster.apply(NodeRemoved(NodeName("a")))
    muster.apply(node("b", gpu=0))
    muster.decide(1.0)
    muster.apply(node("a", gpu=1))
    muster.apply(GangSubmitted(gang("ns/y", of=shape(share=600))))
    assert not assigns(muster.decide(2.0))
    devices, free = muster.world.nodes.devices, muster.world.nodes.free
    assert devices.slots(400, free(devices.row)).tolist() == [1, 0]


def explained(
    *nodes: NodeChanged, taken: tuple[tuple[str, int], ...] = (), count: int, share: int
) -> Explanation:
    muster = scheduler(nodes)
    for i, (name, amount) in enumerate(taken):
        muster.apply(PodsBound({PodId(f"f{i}"): None}, NodeName(name), shape(share=amount).requests))
    muster.apply(GangSubmitted(gang("ns/x", count=count, of=shape(share=share))))
    [wait] = waits(muster.decide(0.0))
    return wait.explanation


def test_why_shares_do_not_fit() -> None:
    found = explained(node("a", gpu=1), taken=(("a", 900),), count=1, share=250)
    assert (found.code, found.message) == (
        Code.INSUFFICIENT_CAPACITY,
        "0.25 GPUs asked as 1 × 0.25; 0.1 are free",
    )
    found = explained(node("a", gpu=2), taken=(("a", 600), ("a", 600)), count=1, share=500)
    assert (found.code, found.message) == (
        Code.FRAGMENTED,
        "0.5 GPUs asked as 1 × 0.5; 0.8 are free, but no GPU has 0.5 free at once",
    )
    assert found.pod_sets[0].limited_by == {"muster.dev/gpu-share": 1}
    found = explained(node("a", gpu=0), count=1, share=500)
    assert found.code is Code.NOTHING_MATCHES


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(1, 9), min_size=2, max_size=4)
)
@settings(max_examples=examples(60), deadline=None)
def test_no_gang_of_several_shares_that_fits_is_proven_infeasible(gpus: list[int], tenths: list[int]) -> None:
    """Whole GPUs and shares in one gang: what is called impossible is so, by trying everything."""
    sets = [
        PodSet(f"s{i}", shape(share=100 * t) if t < 9 else shape(gpu=1), 1, 1) for i, t in enumerate(tenths)
    ]
    muster: Scheduler = scheduler([node(f"n{i}", gpu=n) for i, n in enumerate(gpus)], gang("ns/x", *sets))
    decisions = muster.decide(0.0)
    if not assigns(decisions):
        [wait] = waits(decisions)
        assert "none was found" in wait.explanation.message or not _fits(sum(gpus), tenths)


def test_small_shares_leave_large_ones_their_devices() -> None:
    sets = (PodSet("a", shape(share=600), 2, 2), PodSet("b", shape(share=300, cpu=1000), 2, 2))
    made = scheduler([node("n", gpu=2, cpu=2000)], gang("ns/x", *sets))
    [assign] = assigns(made.decide(0.0))
    assert set(assign.devices.values()) == {0, 1}


def test_a_packing_that_best_fit_misses_is_found() -> None:
    """0.5 + 0.3 + 0.2 and 0.4 + 0.4 + 0.2: the best fit for 0.4 is beside 0.5."""
    tenths = (5, 3, 2, 2, 4, 4)
    sets = [PodSet(f"s{i}", shape(share=100 * t, cpu=1 + i), 1, 1) for i, t in enumerate(tenths)]
    [assign] = assigns(scheduler([node("n", gpu=2)], gang("ns/x", *sets)).decide(0.0))
    assert sum(t for i, t in enumerate(tenths) if assign.devices[Place(f"s{i}", 0)] == 0) == 10


@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(0, 3)), min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(1, 10), st.integers(0, 2), st.integers(1, 2)), min_size=2, max_size=3),
)
@settings(max_examples=examples(150), deadline=None)
def test_small_gangs_of_several_shares_start_exactly_if_they_fit(
    nodes: list[tuple[int, int]], pods: list[tuple[int, int, int]]
) -> None:
    """`nodes`: GPUs and CPUs; `pods`: tenths of a GPU (10: a whole one), CPUs, and how many."""
    sets = [
        PodSet(
            f"s{i}",
            shape(gpu=1, cpu=1000 * cpu) if t == 10 else shape(share=100 * t, cpu=1000 * cpu),
            n,
            n,
        )
        for i, (t, cpu, n) in enumerate(pods)
    ]
    made = scheduler([node(f"n{i}", gpu=g, cpu=1000 * c) for i, (g, c) in enumerate(nodes)])
    made.apply(GangSubmitted(gang("ns/x", *sets)))

    def put(left: list[tuple[list[int], int]], rest: list[tuple[int, int]]) -> bool:
        if not rest:
            return True
        (tenths, cpu), later = rest[0], rest[1:]
        for i, (gpus, cpus) in enumerate(left):
            for g, room in enumerate(gpus):
                if room >= tenths and cpus >= cpu:
                    used = ([*gpus[:g], room - tenths, *gpus[g + 1 :]], cpus - cpu)
                    if put([*left[:i], used, *left[i + 1 :]], later):
                        return True
        return False

    every = [(t, cpu) for t, cpu, n in pods for _ in range(n)]
    assert bool(assigns(made.decide(0.0))) == put([([10] * g, c) for g, c in nodes], every)


def _fits(devices: int, tenths: list[int]) -> bool:
    def put(left: list[int], rest: list[int]) -> bool:
        if not rest:
            return True
        size = 10 if rest[0] == 9 else rest[0]
        return any(
            put([*left[:i], left[i] - size, *left[i + 1 :]], rest[1:])
            for i in range(len(left))
            if left[i] >= size
        )

    return put([10] * devices, tenths)

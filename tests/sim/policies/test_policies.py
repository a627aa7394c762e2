"""The published orders, each score against one that is worked out node by node in plain numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.placement.slots import NO_SLOT
from muster.core.words.events import Footprint, GangSubmitted, NodeChanged, PodsBound, PodsEnded
from muster.core.words.gang import Gang, GangId, NodeName, Place, PodId, PodSet, Shape
from muster.names import GPU_PRODUCT
from muster.sim.policies import POLICIES, policy
from muster.sim.policies.fgd import Fgd, typical_pods
from muster.sim.policies.gpu_clustering import Held, _Watched
from muster.sim.trace import TraceError
from tests.core.words import assigns, node, shape
from tests.tiers import examples

SHAPES = (
    shape(cpu=4000),
    shape(share=300, cpu=2000),
    shape(share=700, cpu=6000),
    shape(gpu=1, cpu=8000),
    shape(gpu=2, cpu=1000, selector={GPU_PRODUCT: "G2"}),
)
TYPICAL = typical_pods([SHAPES[0]] * 2 + [SHAPES[1]] * 5 + [SHAPES[2]] * 3 + [SHAPES[3]] * 4 + [SHAPES[4]])
NODES = (("a", 4, 32_000, "T4"), ("b", 8, 64_000, "G2"), ("c", 2, 16_000, "G2"))


@dataclass
class Model:
    """A node: milli-CPU free, thousandths that each GPU has left, and classes of pods that it holds."""

    cpu: int
    left: list[int]
    model: str
    classes: list[str] = field(default_factory=list)

    def fits(self, of: Shape) -> bool:
        cpu, thousandths, count = asked(of)
        model = dict(of.selector).get(GPU_PRODUCT, self.model)
        return self.cpu >= cpu and model == self.model and sum(x >= thousandths for x in self.left) >= count

    def place(self, of: Shape, device: int | None) -> None:
        """Shares on the GPUs of their numbers, in front; whole ones on those at the end."""
        cpu, thousandths, count = asked(of)
        self.cpu -= cpu
        if device is not None:
            self.left[device] -= thousandths
        for _ in range(count if device is None else 0):
            self.left[max(i for i, x in enumerate(self.left) if x == 1000)] = 0
        self.classes += [] if not count else ["share" if thousandths < 1000 else f"{count}"]


def asked(of: Shape) -> tuple[int, int, int]:
    amounts = dict(of.requests)
    whole = amounts.get("nvidia.com/gpu", 0)
    return amounts.get("cpu", 0), of.gpu_share or 1000 * bool(whole), 1 if of.gpu_share else whole


def dot_product(model: Model, of: Shape) -> int:
    cpu, thousandths, count = asked(of)
    product = model.cpu / 128_000 * cpu / 128_000 + sum(model.left) / 8000 * thousandths * count / 8000
    return int(100 * (1 - product / 2))


def best_fit(model: Model, of: Shape) -> int:
    cpu, thousandths, count = asked(of)
    return int(100 * (1 - (model.cpu - cpu) / 256_000 - (sum(model.left) - thousandths * count) / 16_000))


def gpu_packing(model: Model, of: Shape) -> int:
    _, thousandths, count = asked(of)
    if not count:
        return 0
    empty = model.left.count(1000)
    if empty == len(model.left):
        return max(33 - empty, empty)
    taken = sorted(x for x in model.left if x >= thousandths)[:count]
    if 1000 in taken:
        return max(50 - taken.count(1000), 33)
    return max(100 - sum(x * 100 // 1000 for x in taken) // 10, 50)


def gpu_clustering(model: Model, of: Shape) -> int:
    _, thousandths, count = asked(of)
    if not count:
        return 0
    own = "share" if thousandths < 1000 else f"{count}"
    base = 25 * (8000 - sum(model.left)) // 8000
    if own in model.classes:
        return base + (75 if set(model.classes) == {own} else 50)
    return base + (0 if model.classes else 25)


def fragments(cpu: int, left: list[int], model: str) -> float:
    total = 0.0
    for i, of in enumerate(TYPICAL.shapes):
        needed, thousandths, count = asked(of)
        fits = sum(x >= thousandths for x in left) >= count
        there = dict(of.selector).get(GPU_PRODUCT, model) == model
        usable = count and cpu >= needed and fits and there
        total += TYPICAL.frequency[i] * sum(x for x in left if not usable or x < thousandths)
    return total


def fgd(model: Model, of: Shape) -> tuple[int, int]:
    """The score, and which GPU."""
    cpu, thousandths, count = asked(of)
    before = fragments(model.cpu, model.left, model.model)
    found = []
    for gpu, left in enumerate(model.left):
        after = list(model.left)
        if thousandths == 1000 or not count:
            for _ in range(count):
                after.remove(1000)
        elif left >= thousandths:
            after[gpu] -= thousandths
        else:
            continue
        less = (before - fragments(model.cpu - cpu, after, model.model)) / 1000
        found.append((int(100 / (1 + exp(-less))), -gpu))
    score, gpu = max(found)
    return score, -gpu


def made(name: str) -> Scheduler:
    """A scheduler with this policy on the nodes; FGD goes by the typical pods above."""
    if name == "fgd":
        muster = Scheduler(Config(order=lambda nodes, eligibility: Fgd(nodes, eligibility, TYPICAL)))
    else:
        found = policy(name)()
        assert isinstance(found, Scheduler)
        muster = found
    for one, gpu, cpu, product in NODES:
        muster.apply(node(one, gpu=gpu, cpu=cpu, labels={GPU_PRODUCT: product}))
    muster.decide(0.0)
    return muster


NAIVE: dict[str, Callable[[Model, Shape], int]] = {
    "dot-product": dot_product,
    "best-fit": best_fit,
    "gpu-packing": gpu_packing,
    "gpu-clustering": gpu_clustering,
    "fgd": lambda model, of: fgd(model, of)[0],
}


@pytest.mark.parametrize("name", NAIVE)
@given(arrivals=st.lists(st.integers(0, len(SHAPES) - 1), max_size=14))
@settings(max_examples=examples(25), deadline=None)
def test_pods_go_where_the_plain_numbers_say(name: str, arrivals: list[int]) -> None:
    muster = made(name)
    models = {one: Model(cpu, [1000] * gpu, product) for one, gpu, cpu, product in NODES}
    for number, which in enumerate(arrivals):
        of = SHAPES[which]
        scores = {one: NAIVE[name](model, of) for one, model in models.items() if model.fits(of)}
        if name == "best-fit" and scores:
            least, most = min(scores.values()), max(scores.values())
            scores = {one: (s - least) * 100 // max(most - least, 1) for one, s in scores.items()}
        gang = Gang(GangId(f"g{number:02}"), (PodSet("main", of, 1, 1),), 1, float(number))
        muster.apply(GangSubmitted(gang))
        placed = assigns(muster.decide(float(number)))
        if not scores:
            assert not placed
            continue
        place = Place("main", 0)
        chosen = placed[-1].nodes[place]
        assert chosen == min(scores, key=lambda one: (-scores[one], one))
        device = placed[-1].devices.get(place)
        if name == "fgd" and device is not None:
            assert models[chosen].left[device] == models[chosen].left[fgd(models[chosen], of)[1]]
        models[chosen].place(of, device)
        footprint = Footprint(device=device)
        muster.apply(PodsBound({PodId(gang.id): place}, chosen, of.requests, gang.id, footprint))


def test_typical_pods_are_the_most_frequent_until_most_are_covered() -> None:
    memory = Shape((*SHAPES[1].requests, ("memory", 5)))
    found = typical_pods([SHAPES[3]] * 40 + [SHAPES[1], memory] * 28 + [SHAPES[0]] * 2 + [SHAPES[2]] * 2)
    assert found.shapes == (SHAPES[1], SHAPES[3])
    assert found.frequency.tolist() == [56 / 96, 40 / 96]
    assert (found.cpu.tolist(), found.thousandths.tolist(), found.count.tolist()) == (
        [2000, 8000],
        [300, 1000],
        [1, 1],
    )


def test_random_takes_any_node_and_any_gpu() -> None:
    chosen = set()
    for seed in range(30):
        muster = policy("random")(None, seed)
        muster.apply(node("a", gpu=2))
        muster.apply(node("b", gpu=2))
        muster.apply(PodsBound({PodId("x"): None}, NodeName("a"), shape(share=500).requests))
        muster.apply(GangSubmitted(Gang(GangId("g"), (PodSet("main", SHAPES[1], 1, 1),), 1, 0.0)))
        [assign] = assigns(muster.decide(0.0))
        chosen.add((assign.nodes[Place("main", 0)], assign.devices[Place("main", 0)]))
    assert chosen == {("a", 0), ("a", 1), ("b", 0)}
    assert POLICIES["random"].draws


def test_clusters_forget_what_has_ended() -> None:
    held = Held()
    for uid, on in (("x", "a"), ("y", "a"), ("x", "b")):
        held.observe(PodsBound({PodId(uid): None}, NodeName(on), shape(share=500).requests))
    held.observe(PodsBound({PodId("z"): None}, NodeName("a"), shape(cpu=1).requests))
    assert {name: dict(classes) for name, classes in held.on.items()} == {"a": {-1: 1}, "b": {-1: 1}}
    held.observe(PodsEnded((PodId("y"),), 1.0))
    assert not held.on[NodeName("a")]
    assert isinstance(policy("gpu-clustering")(), _Watched)


def test_a_gang_is_spread_or_scored_pod_by_pod() -> None:
    muster = made("gpu-packing")
    muster.apply(GangSubmitted(Gang(GangId("g"), (PodSet("main", SHAPES[3], 3, 3),), 3, 0.0)))
    [assign] = assigns(muster.decide(0.0))
    assert sorted(assign.nodes.values()) == ["a", "c", "c"]
    keys = muster.fit.slots.of(SHAPES[4]).key.tolist()
    assert [key == NO_SLOT for key in keys] == [True, False, True]


def test_fgd_needs_a_trace() -> None:
    with pytest.raises(TraceError, match="--policy fgd needs a trace of jobs"):
        policy("fgd")()


def test_a_node_that_comes_later_is_scored() -> None:
    muster = made("fgd")
    muster.apply(NodeChanged(NodeName("0"), (("cpu", 32_000), ("nvidia.com/gpu", 1))))
    muster.apply(GangSubmitted(Gang(GangId("g"), (PodSet("main", SHAPES[2], 2, 2),), 2, 0.0)))
    assert len(assigns(muster.decide(0.0))) == 1

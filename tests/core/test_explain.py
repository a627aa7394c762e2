"""Codes and messages; each row is a cluster, a gang, and what is said."""

from dataclasses import replace

import pytest

from muster.core.cycle import Scheduler
from muster.core.explain.case import BLOCKERS
from muster.core.offline import misfit
from muster.core.words.amounts import show
from muster.core.words.decisions import Explanation
from muster.core.words.events import (
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    NodeRemoved,
    PodsBound,
    PodsEnded,
    QueueChanged,
    QuotaChanged,
)
from muster.core.words.gang import (
    Amounts,
    Code,
    Effect,
    Gang,
    GangId,
    Gate,
    Gather,
    Layer,
    NodeName,
    Operator,
    PodId,
    PodSet,
    PodTerm,
    Queue,
    Requirement,
    Strategy,
    Taint,
)
from tests.core.words import GPU, amounts, assigns, bind, foreign, gang, node, pod, scheduler, shape, waits

A100 = {"nvidia.com/gpu.product": "A100"}


def four(pods: int = 110) -> list[NodeChanged]:
    return [node(f"n{i}", gpu=8, pods=pods) for i in range(4)]


@pytest.mark.parametrize(
    ("nodes", "wanted", "code", "message"),
    [
        ([], gang("x"), Code.NOTHING_MATCHES, "there is no node"),
        (
            four(),
            gang("x", of=shape(gpu=16)),
            Code.NOTHING_MATCHES,
            "a pod asks 16 GPUs; the largest matching node has 8",
        ),
        (
            four(),
            gang("x", of=shape(fpga=1)),
            Code.NOTHING_MATCHES,
            "a pod asks 1 fpga; the largest matching node has 0",
        ),
        (
            four(),
            gang("x", of=shape(memory=2**43)),
            Code.NOTHING_MATCHES,
            "a pod asks 8 TiB memory; the largest matching node has 512 GiB",
        ),
        (
            four(),
            gang("x", of=shape(gpu=1, selector=A100)),
            Code.NOTHING_MATCHES,
            (
                "none of 4 nodes matches: selector nvidia.com/gpu.product=A100 "
                "(no node has nvidia.com/gpu.product)"
            ),
        ),
        (
            [node("a", taints=(Taint("k", "", Effect.NO_SCHEDULE),)), node("b", taints=())],
            gang("x", of=shape(gpu=1, selector=A100)),
            Code.NOTHING_MATCHES,
            (
                "none of 2 nodes matches: selector nvidia.com/gpu.product=A100 "
                "(no node has nvidia.com/gpu.product), taint k"
            ),
        ),
        (
            [node("a", gpu=8, cpu=1000), node("b", gpu=1, cpu=64000)],
            gang("x", of=shape(gpu=2, cpu=4000)),
            Code.NOTHING_MATCHES,
            "no matching node has 2 GPUs and 4 CPUs together",
        ),
        (
            four(),
            gang("x", PodSet("d", shape(cpu=1000), 1, 1), PodSet("w", shape(gpu=9), 2, 2)),
            Code.NOTHING_MATCHES,
            "w: a pod asks 9 GPUs; the largest matching node has 8",
        ),
        (
            four(),
            gang("x", count=10, of=shape(gpu=4)),
            Code.INSUFFICIENT_CAPACITY,
            "40 GPUs asked as 10 × 4; 32 are free, all 4 matching nodes together have 32",
        ),
        (
            [node("a", labels=A100), node("b")],
            gang("x", count=3, of=shape(gpu=4, selector=A100)),
            Code.INSUFFICIENT_CAPACITY,
            "12 GPUs asked as 3 × 4; 8 are free, the only matching node has 8",
        ),
        (
            [node("a", cordoned=True), node("b", ready=False)],
            gang("x", of=shape(gpu=1)),
            Code.INSUFFICIENT_CAPACITY,
            "1 GPU asked as 1 × 1; no matching node is ready and uncordoned",
        ),
        (
            four(pods=2),
            gang("x", count=9, of=shape()),
            Code.INSUFFICIENT_CAPACITY,
            "9 pods asked; 8 are free, all 4 matching nodes together have 8",
        ),
        (
            four(),
            gang("x", PodSet("d", shape(gpu=1), 1, 1), PodSet("w", shape(gpu=8), 4, 4)),
            Code.INSUFFICIENT_CAPACITY,
            "33 GPUs asked as 1 × 1 + 4 × 8; 32 are free, all 4 matching nodes together have 32",
        ),
        (
            [node("a", gpu=4), node("b", gpu=4), node("c", gpu=4), node("d", gpu=3), node("e", gpu=3)],
            gang("x", count=4, of=shape(gpu=4)),
            Code.FRAGMENTED,
            "16 GPUs asked as 4 × 4; 18 are free, but only 3 nodes have 4 free at once",
        ),
        (
            four(),
            gang("x", count=10, of=shape(gpu=3)),
            Code.FRAGMENTED,
            "30 GPUs asked as 10 × 3; 32 are free, but in pieces that take only 8 of 10 pods",
        ),
        (
            four(),
            Gang(gang("x").id, (PodSet("main", shape(gpu=1), 2, 3),), 3, 0.0),
            Code.INVALID,
            "3 more pods are required, but only 2 more can be",
        ),
        (
            four(),
            Gang(gang("x").id, (PodSet("main", shape(gpu=1), 2, 0),), 3, 0.0),
            Code.INVALID,
            "3 more pods are required, but only 2 more can be",
        ),
    ],
)
def test_codes_and_messages(nodes: list[NodeChanged], wanted: Gang, code: Code, message: str) -> None:
    explanation = misfit(wanted, nodes)
    assert explanation is not None
    assert (explanation.code, explanation.message) == (code, message)


def either(count: int, minimum: int) -> Gang:
    """Pods that take GPUs, pods that take CPUs, or both, make up the minimum."""
    sets = PodSet("gpu", shape(gpu=1), count, 0), PodSet("cpu", shape(cpu=1000), count, 0)
    return gang("x", *sets, minimum=minimum)


@pytest.mark.parametrize(
    ("gpus", "minimum", "code", "message"),
    [
        (1, 1, Code.INSUFFICIENT_CAPACITY, "gpu: 1 GPU asked; 0 are free"),
        (
            2,
            2,
            Code.FRAGMENTED,
            (
                "gpu: 1 GPU asked per pod; 1 is free, but in pieces that take only 1 of 2 pods; "
                "no placement exists"
            ),
        ),
    ],
)
def test_a_minimum_of_pods_that_take_different_resources(
    gpus: int, minimum: int, code: Code, message: str
) -> None:
    made = scheduler([node("n", gpus, 1000)], either(2, minimum))
    made.apply(PodsBound({PodId("p"): None}, NodeName("n"), amounts({GPU: 1, "cpu": 1000})))
    (wait,) = waits(made.decide(0.0))
    assert (wait.explanation.code, wait.explanation.message) == (code, message)


def test_a_gang_that_fits_empty_nodes_has_no_misfit_whatever_its_gate() -> None:
    assert misfit(gang("x", count=32, gate=Gate(Code.GATED, "held")), four()) is None
    assert misfit(gang("x", count=33, minimum=32), four()) is None


def explained(nodes: list[NodeChanged], wanted: Gang) -> Explanation:
    explanation = misfit(wanted, nodes)
    assert explanation is not None
    return explanation


def test_each_node_is_counted_once_by_what_keeps_the_next_pod_off() -> None:
    taint = (Taint("k", "", Effect.NO_SCHEDULE),)
    nodes = [
        node("a", labels=A100),
        node("b", labels=A100, gpu=1),
        node("c", labels=A100, cpu=500, gpu=2),
        node("d", labels=A100, cordoned=True, taints=taint),
        node("e", labels=A100, ready=False),
        node("f", taints=taint, ready=False),
    ]
    (main,) = explained(nodes, gang("x", count=5, of=shape(gpu=2, cpu=1000, selector=A100))).pod_sets
    assert (main.wanted, main.fits) == (5, 4)
    assert main.limited_by == {"selector": 1, "taint": 1, "notReady": 1, "nvidia.com/gpu": 2, "cpu": 1}


def test_blockers_are_the_largest_holders_on_usable_nodes() -> None:
    made = scheduler([node(f"n{i}", gpu=8, labels=A100 if i < 7 else None) for i in range(8)])
    for i in range(8):
        holder = GangId(f"g{i}")
        made.apply(PodsBound({PodId(f"p{i}"): None}, NodeName(f"n{i}"), amounts({GPU: i + 1}), holder))
    foreign(made, "n0", 7)
    made.apply(GangSubmitted(gang("y", count=40, of=shape(gpu=1, selector=A100))))
    (wait,) = waits(made.decide(0.0))
    assert wait.explanation.blockers == ("g6", "g5", "g4", "g3", "g2")
    assert len(wait.explanation.blockers) == BLOCKERS


def test_equal_gangs_share_one_explanation() -> None:
    made = scheduler([node("a", gpu=1)], *(gang(f"g{i}", count=2, submitted=float(i)) for i in range(7)))
    told = [wait.explanation for wait in waits(made.decide(0.0))]
    assert len(told) == 7
    assert all(explanation is told[-1] for explanation in told[3:])
    assert all(explanation.pod_sets is told[-1].pod_sets for explanation in told)


def test_a_gang_is_not_its_own_blocker() -> None:
    made = scheduler([node("a", gpu=4), node("b", gpu=2)], gang("x", count=6))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign)
    made.apply(NodeRemoved(NodeName("b")))
    for place, name in assign.nodes.items():
        if name == "b":
            made.apply(PodsEnded((pod("x", place),), 1.0))
    (wait,) = waits(made.decide(1.0))
    assert wait.explanation.message == "2 GPUs asked as 2 × 1; 0 are free"
    assert wait.explanation.blockers == ()


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1000, "1 CPU"),
        ("cpu", 1500, "1.5 CPUs"),
        ("nvidia.com/gpu", 1, "1 GPU"),
        ("amd.com/gpu", 2, "2 GPUs"),
        ("memory", 512 * 2**20, "512 MiB memory"),
        ("memory", 1536 * 2**20, "1.5 GiB memory"),
        ("hugepages-2Mi", 4 * 2**20, "4 MiB hugepages-2Mi"),
        ("memory", 999, "999 B memory"),
        ("memory", 10**9, "953.7 MiB memory"),
        ("memory", 1023 * 2**20 - 1, "1023 MiB memory"),
        ("pods", 3, "3 pods"),
        ("example.com/fpga", 2, "2 example.com/fpga"),
        ("deviceclass/gpu", 7, "7 devices of class gpu"),
        ("deviceclass/gpu.nvidia.com", 1, "1 device of class gpu.nvidia.com"),
    ],
)
def test_amounts_as_people_say_them(resource: str, amount: int, text: str) -> None:
    assert show(resource, amount) == text


def elastic(name: str = "g", count: int = 4) -> Gang:
    return replace(gang(name, count=count, minimum=2), queue="q")


def grown() -> Scheduler:
    """A gang of two to four pods of one GPU on three GPUs: three of them run."""
    core = scheduler([node("n", gpu=3)], elastic())
    core.apply(QueueChanged(Queue("q")))
    (assign,) = assigns(core.decide(0.0))
    bind(core, assign)
    return core


def test_pods_above_the_minimum_that_wait_get_a_reason() -> None:
    core = grown()
    (wait,) = waits(core.decide(1.0))
    told = wait.explanation
    assert (wait.gang, told.code) == ("g", Code.INSUFFICIENT_CAPACITY)
    assert told.message == ("its minimum runs, and 1 more pod waits: 1 GPU asked; 0 are free")
    assert [(one.wanted, one.fits, dict(one.limited_by)) for one in told.pod_sets] == [(1, 0, {GPU: 1})]
    assert (told.remedies, told.expected_start) == ((), None)
    assert core.asked(GangId("g")) == told
    assert not core.decide(2.0)  # no gang is told the same twice
    core.apply(node("m", gpu=1))
    (assign,) = assigns(core.decide(3.0))
    bind(core, assign)
    assert not core.decide(4.0)
    assert core.world.gangs[GangId("g")].explanation is None


def test_of_several_the_numbers_are_those_of_one() -> None:
    core = scheduler([node("n", gpu=2)], elastic(count=9))
    core.apply(QueueChanged(Queue("q")))
    (assign,) = assigns(core.decide(0.0))
    assert not waits(core.decide(0.5))  # its start is under way
    bind(core, assign)
    (wait,) = waits(core.decide(1.0))
    assert wait.explanation.message.startswith("its minimum runs, and 7 more pods wait: 1 GPU asked; 0 are")


@pytest.mark.parametrize(
    ("queue", "code", "said"),
    [
        (Queue("q", capability=((GPU, 3),)), Code.QUOTA_EXCEEDED, "its minimum runs, and 1 more pod waits: "),
        (Queue("q", deserved=((GPU, 3),)), Code.OVER_SHARE, "its minimum runs, and 1 more pod waits: "),
    ],
)
def test_its_queue_may_be_what_keeps_them(queue: Queue, code: Code, said: str) -> None:
    other = replace(gang("other", count=2), queue="r", submitted=-1.0)
    core = scheduler([node("n", gpu=5)], other, elastic())
    core.apply(QueueChanged(queue))
    core.apply(QueueChanged(Queue("r")))
    for assign in assigns(core.decide(0.0)):
        bind(core, assign)
    (wait,) = waits(core.decide(1.0))
    assert (wait.gang, wait.explanation.code) == ("g", code)
    assert wait.explanation.message.startswith(said)


def test_a_gate_keeps_them_too_and_says_nothing_to_a_gang_that_is_whole() -> None:
    core, gate = grown(), Gate(Code.INVALID, "pod late: says something else")
    core.decide(1.0)
    core.apply(GangSubmitted(replace(elastic(), gate=gate)))
    (wait,) = waits(core.decide(2.0))
    assert (wait.explanation.code, wait.explanation.message) == (gate.code, gate.message)
    core.apply(GangSubmitted(replace(elastic(count=3), gate=gate)))
    assert not core.decide(3.0)
    assert core.world.gangs[GangId("g")].explanation is None


def test_waiting_gangs_come_first_with_what_would_start_them() -> None:
    """Remedies are for the first gangs of a queue that wait: pods above a minimum do not count."""
    core = scheduler([node("n", gpu=3)], *(elastic(f"g{i}") for i in range(1)))
    core.apply(QueueChanged(Queue("q")))
    for assign in assigns(core.decide(0.0)):
        bind(core, assign)
    core.apply(GangSubmitted(replace(gang("later", count=2, submitted=5.0), queue="q")))
    told = {wait.gang: wait.explanation for wait in waits(core.decide(1.0))}
    assert set(told) == {"g0", "later"}
    assert not told[GangId("g0")].remedies
    assert told[GangId("later")].remedies


def in_racks(*gpus: int) -> list[NodeChanged]:
    """A node of so many GPUs in each rack."""
    return [node(f"n{i}", gpu=g, labels={"rack": f"r{i}", HOST: f"n{i}"}) for i, g in enumerate(gpus)]


HOST = "kubernetes.io/hostname"
#: On nodes of 4 and 5 GPUs only a search finds a place for them.
MISSED = (PodSet("large", shape(gpu=3), 1, 1), PodSet("small", shape(gpu=2), 3, 3))
APART = PodTerm(HOST, (Requirement("app", Operator.IN, ("large",)),), ("ns",))
GATHERED = (Gather("rack", Strategy.MUST_GATHER),)


def keeping(*kept: PodSet, gather: tuple[Gather, ...] = ()) -> Gang:
    return Gang(GangId("x"), kept, sum(each.count for each in kept), 0.0, namespace="ns", gather=gather)


def away_from_large(pod_set: PodSet) -> PodSet:
    return replace(
        pod_set, shape=replace(pod_set.shape, pod_anti_affinity=(APART,)), labels=(("app", pod_set.name),)
    )


@pytest.mark.parametrize(
    ("gpus", "wanted", "code", "message"),
    [
        (
            (4, 5),
            keeping(*MISSED, gather=GATHERED),
            Code.TOPOLOGY_UNSATISFIED,
            "4 pods must be in one rack; of 2, rack r0 has most room, for 1; without that they fit",
        ),
        (
            (4, 5),
            keeping(replace(MISSED[0], labels=(("app", "large"),)), away_from_large(MISSED[1])),
            Code.CONSTRAINT_UNSATISFIED,
            (
                f"small: 3 pods asked with anti-affinity by {HOST}; 2 of 3 fit; "
                "an exhaustive search found none; without that they would"
            ),
        ),
        (
            (4, 4, 4, 4),
            keeping(away_from_large(PodSet("large", shape(gpu=1), 6, 6)), gather=GATHERED),
            Code.TOPOLOGY_UNSATISFIED,
            (
                "6 pods must be in one rack; of 4, rack r0 has most room, for 1; "
                f"without that and without anti-affinity by {HOST} they fit"
            ),
        ),
        (
            (4, 4),
            keeping(
                PodSet("large", shape(gpu=3), 2, 2),
                PodSet("small", shape(gpu=2), 1, 1),
                gather=GATHERED,
            ),
            Code.FRAGMENTED,
            (
                "small: 8 GPUs asked as 2 × 3 + 1 × 2; 8 are free, but in pieces that take only 0 of 1 pods; "
                "no placement exists"
            ),
        ),
    ],
)
def test_reasons_of_several_shapes_besides_capacity_are_found_by_search(
    gpus: tuple[int, ...], wanted: Gang, code: Code, message: str
) -> None:
    """Greedy placement finds no room for some of them even without that."""
    made = scheduler(in_racks(*gpus))
    made.apply(LayersChanged((Layer("rack", ("rack",)),)))
    made.apply(GangSubmitted(wanted))
    (wait,) = waits(made.decide(0.0))
    assert (wait.explanation.code, wait.explanation.message) == (code, message)


@pytest.mark.parametrize(
    ("rule", "quotas", "said"),
    [
        (
            Queue("a", capability=amounts({GPU: 18})),
            (),
            "queue a uses 4 of its 18 GPUs; 16 more would be 20",
        ),
        (
            Queue("a"),
            (("pods", amounts({"pods": 1})),),
            (
                "ResourceQuota pods of namespace ns has 17 of pods left, of which 4 are kept for gangs that "
                "start; the pods that are to be created ask for 16"
            ),
        ),
        (Queue("a"), (), "queue a1 is entitled to 6 of 16 GPUs and uses 0; 16 more would be 16"),
    ],
)
def test_a_cap_that_was_used_up_in_this_very_cycle_comes_before_shares(
    rule: Queue, quotas: tuple[tuple[str, Amounts], ...], said: str
) -> None:
    """The queue of `second` is asked first, and says that it would be over its share."""
    made = scheduler([node("n0", gpu=16)])
    for queue in (rule, Queue("a1", parent="a"), Queue("a2", parent="a")):
        made.apply(QueueChanged(queue))
    made.apply(QueueChanged(Queue("b", guarantee=amounts({GPU: 6}))))
    made.apply(QuotaChanged("ns", "pods", amounts({"pods": 17})))
    for name, queue_name, count in (("first", "a2", 4), ("second", "a1", 16)):
        pods = PodSet("main", shape(gpu=1), count, count, uncreated=count if quotas else 0, quotas=quotas)
        one = Gang(GangId(name), (pods,), count, 0.0, namespace="ns", queue=queue_name, preempts=False)
        made.apply(GangSubmitted(one))
    decisions = made.decide(0.0)
    assert [assign.gang for assign in assigns(decisions)] == ["first"]
    (wait,) = waits(decisions)
    assert wait.explanation.message == said


@pytest.mark.parametrize(
    ("count", "minimum", "said"),
    [(10, 10, "10 is not a multiple of 4"), (7, 5, "no number from 5 to 7 is a multiple of 4"), (9, 8, None)],
)
def test_a_number_that_is_no_multiple_is_named(count: int, minimum: int, said: str | None) -> None:
    made = scheduler([node("n0", labels={"row": "a"}), node("n1", labels={"row": "b"})])
    made.apply(LayersChanged((Layer("row", ("row",)),)))
    asked = gang("g", count=count, minimum=minimum, of=shape(cpu=1000))
    made.apply(GangSubmitted(replace(asked, gather=(Gather("row", None, 4),))))
    waiting = waits(made.decide(0.0))
    if said is None:
        assert not waiting
    else:
        assert waiting[0].explanation.code is Code.TOPOLOGY_UNSATISFIED
        assert said in waiting[0].explanation.message

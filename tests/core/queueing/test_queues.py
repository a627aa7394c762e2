"""Queues: which gangs may start, when, on which entitlement; examples of docs/concepts/queues.md."""

from dataclasses import replace

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.amounts import Usage
from muster.core.words.events import (
    Event,
    GangRemoved,
    GangSubmitted,
    PlanFound,
    PodsBound,
    PodsEnded,
    QueueChanged,
    QueueRemoved,
)
from muster.core.words.gang import (
    Amounts,
    Code,
    GangId,
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
)
from muster.core.world.queues.reclaim import may_reclaim
from muster.names import GPU_SHARE
from tests.core.words import GPU, amounts, assigns, bind, gang, node, shape, waits, where

ONE = shape(gpu=1)


def gpus(n: int) -> Amounts:
    return amounts({GPU: n})


def uses(n: int) -> Usage:
    return Usage.of(gpus(n))


def cluster(*events: Event, nodes: int = 2, gpu: int = 8) -> Scheduler:
    muster = Scheduler()
    for i in range(nodes):
        muster.apply(node(f"n{i}", gpu=gpu))
    for event in events:
        muster.apply(event)
    return muster


def queue(name: str, **rules: object) -> QueueChanged:
    return QueueChanged(replace(Queue(name), **rules))  # type: ignore[arg-type]


def submit(
    name: str,
    queue: str,
    count: int,
    *,
    minimum: int | None = None,
    submitted: float = 0.0,
    priority: int = 0,
) -> GangSubmitted:
    least = count if minimum is None else minimum
    pods = PodSet("main", ONE, count, least)
    asked = gang(name, pods, minimum=least, submitted=submitted, priority=priority)
    return GangSubmitted(replace(asked, queue=queue))


def patient(name: str, queue: str, count: int) -> GangSubmitted:
    """It takes nothing back itself."""
    return GangSubmitted(replace(submit(name, queue, count, submitted=1.0).gang, preempts=False))


def started(muster: Scheduler, now: float = 0.0) -> dict[str, int]:
    """What this cycle starts: pods by gang, in order; they are bound at once."""
    found: dict[str, int] = {}
    for assign in assigns(muster.decide(now)):
        found[assign.gang] = found.get(assign.gang, 0) + len(assign.nodes)
        bind(muster, assign)
    return found


def finish(muster: Scheduler, name: str) -> None:
    for pod in list(muster.world.gangs[GangId(name)].pods):
        muster.apply(PodsEnded((pod,), 0.0))
    muster.apply(GangRemoved(GangId(name)))


def code(muster: Scheduler, name: str) -> Code:
    explanation = muster.world.gangs[GangId(name)].explanation
    assert explanation is not None
    return explanation.code


TEAMS = (queue("a", weight=3), queue("b", weight=1))


class TestTwoTeams:
    """16 GPUs, weights 3 : 1."""

    def test_the_one_that_stays_within_starts(self) -> None:
        muster = cluster(*TEAMS, submit("big", "a", 16), submit("small", "b", 4))
        assert started(muster) == {"small": 4}
        a, b = muster.world.queues.find("a"), muster.world.queues.find("b")
        assert a is not None
        assert b is not None
        assert (a.entitled[GPU_SHARE], b.entitled[GPU_SHARE]) == (12_000, 4_000)
        assert code(muster, "big") is Code.OVER_SHARE
        explanation = muster.world.gangs[GangId("big")].explanation
        assert explanation is not None
        assert explanation.message == ("queue a is entitled to 12 of 16 GPUs and uses 0; 16 more would be 16")

    def test_alone_it_is_entitled_to_everything(self) -> None:
        muster = cluster(*TEAMS, submit("big", "a", 16))
        assert started(muster) == {"big": 16}
        muster.apply(patient("small", "b", 4))
        muster.decide(1.0)
        a = muster.world.queues.find("a")
        assert a is not None
        assert a.entitled[GPU_SHARE] == 12_000
        assert a.surplus()[GPU_SHARE] == 4_000

    def test_once_the_other_is_gone(self) -> None:
        muster = cluster(*TEAMS, submit("big", "a", 16), submit("small", "b", 4))
        started(muster)
        finish(muster, "small")
        assert started(muster, 1.0) == {"big": 16}

    def test_an_elastic_gang_takes_its_share_and_leaves_the_rest(self) -> None:
        muster = cluster(*TEAMS, submit("elastic", "a", 16, minimum=12), submit("small", "b", 4))
        assert started(muster) == {"elastic": 12, "small": 4}

    def test_an_elastic_gang_borrows_what_no_other_gang_wants(self) -> None:
        muster = cluster(*TEAMS, submit("elastic", "a", 16, minimum=12), submit("huge", "b", 12))
        assert started(muster) == {"elastic": 16}

    def test_neither_fits_its_entitlement(self) -> None:
        muster = cluster(*TEAMS, submit("a1", "a", 16), submit("b1", "b", 8))
        assert started(muster) == {"a1": 16}, "16 of 12 is less over than 8 of 4"
        finish(muster, "a1")
        muster.apply(submit("a2", "a", 16, submitted=1.0))
        assert started(muster, 1.0) == {"b1": 8}, "the next time the other goes first"

    @pytest.mark.parametrize(("of_a", "of_b"), [(0, 100), (100, 0)])
    def test_priorities_of_other_queues_change_nothing(self, of_a: int, of_b: int) -> None:
        muster = cluster(
            *TEAMS, submit("big", "a", 16, priority=of_a), submit("small", "b", 4, priority=of_b)
        )
        assert started(muster) == {"small": 4}
        gangs = submit("a1", "a", 16, priority=of_a), submit("b1", "b", 8, priority=of_b)
        muster = cluster(*TEAMS, *gangs)
        assert started(muster) == {"a1": 16}

    def test_in_one_queue_the_higher_goes_first(self) -> None:
        muster = cluster(*TEAMS, submit("low", "a", 16), submit("high", "a", 16, priority=1, submitted=1.0))
        assert started(muster) == {"high": 16}


class TestOneFreeOnEachNode:
    """8 nodes of 8 GPUs of which 7 are used."""

    @pytest.fixture
    def muster(self) -> Scheduler:
        muster = cluster(nodes=8)
        muster.apply(GangSubmitted(gang("busy", PodSet("main", shape(gpu=7), 8, 8), minimum=8)))
        assert started(muster) == {"busy": 8}
        return muster

    def ask(self, muster: Scheduler, pods: int, each: int) -> str:
        muster.apply(GangSubmitted(gang("new", PodSet("main", shape(gpu=each), pods, pods), minimum=pods)))
        if started(muster, 1.0):
            return "placed"
        return code(muster, "new").value

    def test_eight_of_one(self, muster: Scheduler) -> None:
        assert self.ask(muster, 8, 1) == "placed"

    def test_eight_of_two(self, muster: Scheduler) -> None:
        assert self.ask(muster, 8, 2) == "InsufficientCapacity"

    def test_four_of_two(self, muster: Scheduler) -> None:
        assert self.ask(muster, 4, 2) == "Fragmented"


class TestOrder:
    def test_queues_take_turns_by_their_share(self) -> None:
        muster = cluster(queue("a", weight=3), queue("b"), nodes=1, gpu=16)
        for i in range(16):
            muster.apply(submit(f"a{i:02}", "a", 1))
            muster.apply(submit(f"b{i:02}", "b", 1))
        order = list(started(muster))
        assert sum(name.startswith("a") for name in order) == 12
        assert order[:5] == ["a00", "b00", "a01", "a02", "a03"]

    def test_queues_borrow_in_turn(self) -> None:
        """c is entitled to half and cannot use it: a and b borrow in turn, one gang at a time."""
        rules = [queue("a"), queue("b"), queue("c", weight=2)]
        muster = cluster(*rules, submit("huge", "c", 32), nodes=1, gpu=16)
        for i in range(8):
            muster.apply(submit(f"a{i}", "a", 1))
            muster.apply(submit(f"b{i}", "b", 1))
        assert list(started(muster))[8:] == ["a4", "b4", "a5", "b5", "a6", "b6", "a7", "b7"]

    def test_fifo_does_not_look_at_priority(self) -> None:
        muster = cluster(queue("a", order=QueueOrder.FIFO), nodes=1)
        muster.apply(submit("old", "a", 8))
        muster.apply(submit("important", "a", 8, priority=9, submitted=1.0))
        assert list(started(muster)) == ["old"]

    def test_fair_looks_at_namespaces(self) -> None:
        muster = cluster(queue("a", order=QueueOrder.FAIR), nodes=1)
        for i in range(8):
            event = submit(f"x{i}", "a", 1)
            muster.apply(GangSubmitted(replace(event.gang, namespace="x", priority=i)))
        for i in range(2):
            event = submit(f"y{i}", "a", 1, submitted=1.0)
            muster.apply(GangSubmitted(replace(event.gang, namespace="y")))
        assert list(started(muster)) == ["x7", "y0", "x6", "y1", "x5", "x4", "x3", "x2"]

    def test_a_tree_is_served_level_by_level(self) -> None:
        """One queue with three below it has no more than one without."""
        rules = [queue("org"), queue("x", parent="org"), queue("y", parent="org"), queue("solo")]
        muster = cluster(*rules, nodes=1)
        for i in range(8):
            for name in ("x", "y", "solo"):
                muster.apply(submit(f"{name}{i}", name, 1))
        order = list(started(muster))
        assert len(order) == 8
        assert sum(name.startswith("solo") for name in order) == 4
        assert sum(name.startswith("x") for name in order) == 2

    def test_a_gang_that_cannot_start_blocks_no_other(self) -> None:
        muster = cluster(
            queue("a", capability=gpus(4)), submit("big", "a", 5), submit("ok", "a", 4, submitted=1.0)
        )
        assert started(muster) == {"ok": 4}
        assert code(muster, "big") is Code.QUOTA_EXCEEDED


class TestShares:
    """Whole GPUs and shares of GPUs are one account."""

    def test_they_add_up(self) -> None:
        muster = cluster(*TEAMS, submit("whole", "b", 3), submit("all", "a", 16))
        for i in range(5):
            part = gang(f"part{i}", PodSet("main", Shape(((GPU_SHARE, 250),)), 1, 1), minimum=1)
            muster.apply(GangSubmitted(replace(part, queue="b")))
        begun = started(muster)
        assert [name for name in begun if name.startswith("part")] == [
            "part0",
            "part1",
            "part2",
            "part3",
            "part4",
        ]
        b = muster.world.queues.find("b")
        assert b is not None
        assert (b.used[GPU_SHARE], b.entitled[GPU_SHARE]) == (4_250, 4_000)
        assert b.surplus() == {GPU_SHARE: 250}


class TestRefusals:
    @pytest.mark.parametrize(
        ("rules", "namespace", "user", "expected", "message"),
        [
            ({}, "ml", "", None, ""),
            ({"namespaces": ("ml",)}, "ml", "", None, ""),
            (
                {"namespaces": ("ml",)},
                "web",
                "",
                Code.INVALID,
                "queue a does not allow namespace web",
            ),
            ({"users": ("eve",)}, "ml", "bob", Code.INVALID, "queue a does not allow user bob"),
            ({"users": ("eve",)}, "ml", "", None, "users are checked where one is known"),
            ({"closed": True}, "ml", "", Code.QUEUE_CLOSED, "queue a is closed"),
            (
                {"capability": gpus(3)},
                "ml",
                "",
                Code.QUOTA_EXCEEDED,
                "queue a uses 0 of its 3 GPUs; 4 more would be 4",
            ),
            (
                {"max_gangs": 0},
                "ml",
                "",
                Code.QUOTA_EXCEEDED,
                "queue a has maxGangs 0, and 0 started already",
            ),
        ],
    )
    def test_codes(
        self, rules: dict[str, object], namespace: str, user: str, expected: Code | None, message: str
    ) -> None:
        muster = cluster(queue("a", **rules))
        muster.apply(GangSubmitted(replace(submit("g", "a", 4).gang, namespace=namespace, user=user)))
        begun = started(muster)
        if expected is None:
            assert begun == {"g": 4}
            return
        assert not begun
        explanation = muster.world.gangs[GangId("g")].explanation
        assert explanation is not None
        assert (explanation.code, explanation.message) == (expected, message)

    def test_all_namespaces_of_a_gang_must_be_allowed(self) -> None:
        muster = cluster(queue("a", namespaces=("ml",)))
        one = submit("g", "a", 4).gang
        sets = (*one.pod_sets, replace(one.pod_sets[0], name="other", namespace="web"))
        muster.apply(GangSubmitted(replace(one, pod_sets=sets, namespace="ml")))
        [wait] = waits(muster.decide(0.0))
        assert wait.explanation.message == "queue a does not allow namespace web"

    def test_a_gang_of_a_namespace_that_is_not_allowed_keeps_none_that_asks_for_the_same(self) -> None:
        muster = cluster(queue("a", namespaces=("ml",)))
        for i, namespace in enumerate(("web", "ml")):
            one = submit(f"g{i}", "a", 20).gang
            sets = tuple(replace(pod_set, namespace=namespace) for pod_set in one.pod_sets)
            muster.apply(GangSubmitted(replace(one, pod_sets=sets, namespace="ml", submitted=float(i))))
        codes = {wait.gang: wait.explanation.code for wait in waits(muster.decide(0.0))}
        assert codes == {"g0": Code.INVALID, "g1": Code.INSUFFICIENT_CAPACITY}

    def test_an_unknown_queue(self) -> None:
        muster = cluster(*TEAMS, submit("g", "c", 1))
        assert not started(muster)
        explanation = muster.world.gangs[GangId("g")].explanation
        assert explanation is not None
        assert (explanation.code, explanation.message) == (
            Code.INVALID,
            "there is no queue c; there are a, b, default",
        )
        muster.apply(queue("c"))
        assert started(muster) == {"g": 1}

    def test_a_queue_with_queues_below(self) -> None:
        muster = cluster(queue("a"), queue("a1", parent="a"), queue("a2", parent="a"), submit("g", "a", 1))
        assert not started(muster)
        explanation = muster.world.gangs[GangId("g")].explanation
        assert explanation is not None
        assert explanation.message == "queue a has queues below it; name one of them: a1, a2"

    def test_a_cap_above_counts(self) -> None:
        rules = [queue("a", capability=gpus(6)), queue("a1", parent="a"), queue("a2", parent="a")]
        muster = cluster(*rules, submit("g1", "a1", 4), submit("g2", "a2", 4))
        assert started(muster) == {"g1": 4}
        explanation = muster.world.gangs[GangId("g2")].explanation
        assert explanation is not None
        assert explanation.message == "queue a uses 4 of its 6 GPUs; 4 more would be 8"

    def test_a_cap_of_none_is_a_cap(self) -> None:
        muster = cluster(queue("cpu-only", capability=((GPU, 0),)))
        muster.apply(submit("trainer", "cpu-only", 1))
        assert started(muster) == {}
        assert code(muster, "trainer") == Code.QUOTA_EXCEEDED

    def test_so_many_gangs_and_no_more(self) -> None:
        muster = cluster(queue("a", max_gangs=2), *(submit(f"g{i}", "a", 1) for i in range(3)))
        assert started(muster) == {"g0": 1, "g1": 1}
        assert code(muster, "g2") is Code.QUOTA_EXCEEDED

    @pytest.mark.parametrize(
        ("rules", "started_", "why"),
        [
            ({"max_gangs": 1}, ["g1"], Code.QUOTA_EXCEEDED),
            ({"closed": True}, [], Code.QUEUE_CLOSED),
            ({}, ["g1", "g0"], None),
        ],
        ids=["full", "closed", "open"],
    )
    def test_a_gang_that_let_its_hold_run_out_is_new_to_its_queue(
        self, rules: dict[str, object], started_: list[str], why: Code | None
    ) -> None:
        muster = cluster(queue("a", max_gangs=1), submit("g0", "a", 1), submit("g1", "a", 1))
        (assign,) = assigns(muster.decide(0.0))
        (bound,) = bind(muster, assign)
        muster.apply(PodsEnded(tuple(bound.pods), 1.0))
        assert [start.gang for start in assigns(muster.decide(1.0))] == ["g0"], "for its replacement"
        muster.apply(QueueChanged(Queue("a", **rules)))  # type: ignore[arg-type]
        assert [start.gang for start in assigns(muster.decide(301.0))] == started_
        explanation = muster.world.gangs[GangId("g0")].explanation
        assert (explanation and explanation.code) is why

    def test_a_gang_that_can_never_fit_is_not_over_its_share(self) -> None:
        muster = cluster(*TEAMS, submit("b", "b", 16))
        muster.apply(
            GangSubmitted(replace(gang("g", PodSet("main", shape(gpu=9), 2, 2), minimum=2), queue="a"))
        )
        muster.decide(0.0)
        assert code(muster, "g") is Code.NOTHING_MATCHES

    def test_an_elastic_gang_stays_below_a_cap(self) -> None:
        muster = cluster(queue("a", capability=gpus(5)), submit("g", "a", 16, minimum=2))
        assert started(muster) == {"g": 5}

    def test_a_queue_that_goes_leaves_its_gangs_running(self) -> None:
        muster = cluster(*TEAMS, submit("g1", "a", 4))
        started(muster)
        muster.apply(QueueRemoved("a"))
        muster.apply(submit("g2", "a", 4))
        assert not started(muster)
        assert code(muster, "g2") is Code.INVALID
        assert muster.world.queues.root.used[GPU_SHARE] == 4_000


class TestRemedies:
    """What would start a gang is true of its queue, too."""

    def remedies(self, muster: Scheduler, name: str) -> list[str]:
        explanation = muster.world.gangs[GangId(name)].explanation
        assert explanation is not None
        return [f"{remedy.change}: {remedy.effect}" for remedy in explanation.remedies]

    def test_fewer_pods_stay_below_a_cap(self) -> None:
        muster = cluster(
            queue("a", capability=gpus(6)), submit("two", "a", 2), submit("g", "a", 9, submitted=1.0)
        )
        assert started(muster) == {"two": 2}
        assert code(muster, "g") is Code.QUOTA_EXCEEDED
        assert self.remedies(muster, "g") == [
            "with 4 GPUs (4 × 1): would start now",
            "in queue default: would start now",
            (
                "no gang of lower priority runs in queue a, and other queues need not give way: "
                "not by preemption"
            ),
        ]

    def test_a_remedy_is_the_end_of_another_gang_of_the_queue(self) -> None:
        muster = cluster(
            queue("a", capability=gpus(6)), submit("two", "a", 2), submit("g", "a", 6, submitted=1.0)
        )
        muster.apply(submit("other", "default", 8))
        assert started(muster) == {"two": 2, "other": 8}
        assert "when two ends: would start" in self.remedies(muster, "g")

    def test_a_full_queue_gets_no_remedy_that_does_not_help(self) -> None:
        muster = cluster(queue("a", max_gangs=0), submit("g", "a", 2))
        assert not started(muster)
        assert self.remedies(muster, "g") == ["in queue default: would start now"]


class TestFaults:
    @pytest.mark.parametrize(
        ("rules", "faulty", "message"),
        [
            ([queue("a", parent="x")], {"a"}, "its parent x does not exist"),
            ([queue("a", parent="a")], {"a"}, "queues are in a cycle: a is below a"),
            (
                [queue("a", parent="b"), queue("b", parent="a")],
                {"a", "b"},
                "queues are in a cycle: a is below b is below a",
            ),
            ([queue("a", weight=0)], {"a"}, "its weight is 0; write 1 or more"),
            (
                [queue("a", guarantee=gpus(4), capability=gpus(2))],
                {"a"},
                "its guarantee of 4 is above its capability of 2 GPUs",
            ),
            (
                [queue("a", guarantee=gpus(4), deserved=gpus(2))],
                {"a"},
                "it deserves 2, less than its guarantee of 4 GPUs",
            ),
            (
                [
                    queue("p", guarantee=gpus(4)),
                    queue("p1", parent="p", guarantee=gpus(3)),
                    queue("a", parent="p", guarantee=gpus(3)),
                ],
                {"p1"},
                (
                    "its guarantee of 3 GPUs is more than is left of the guarantee of its parent p, 4, "
                    "of which 3 are guaranteed to others below it"
                ),
            ),
        ],
    )
    def test_only_they_stand_still(self, rules: list[QueueChanged], faulty: set[str], message: str) -> None:
        muster = cluster(*rules, submit("fine", "default", 1))
        for name in faulty:
            muster.apply(submit(f"g-{name}", name, 1))
        assert started(muster) == {"fine": 1}
        assert {name for name, account in muster.world.queues.accounts.items() if account.fault} == faulty
        account = muster.world.queues.find(min(faulty))
        assert account is not None
        assert account.fault == message
        assert all(code(muster, f"g-{name}") is Code.INVALID for name in faulty)

    def test_gangs_below_a_faulty_queue_start_once_it_is_mended(self) -> None:
        muster = cluster(queue("a", weight=0), queue("b", parent="a"), submit("g", "b", 1))
        assert not started(muster)
        muster.apply(queue("a", weight=1))
        assert started(muster) == {"g": 1}


class TestReclaim:
    """Which queue may reclaim from which: `may_reclaim`."""

    def two(self, **rules_of_a: object) -> Scheduler:
        muster = cluster(queue("a", weight=3, **rules_of_a), queue("b"), submit("big", "a", 16))
        started(muster)
        muster.apply(patient("small", "b", 4))
        muster.apply(submit("more", "a", 4, submitted=1.0))
        muster.decide(1.0)
        return muster

    def test_from_a_queue_over_its_share(self) -> None:
        queues = self.two().world.queues
        assert may_reclaim(queues, "b", uses(4), "a", uses(16))
        assert not may_reclaim(queues, "b", uses(5), "a", uses(16)), "5 are more than b's own"
        assert not may_reclaim(queues, "a", uses(1), "b", uses(1))
        assert not may_reclaim(queues, "a", uses(1), "a", uses(1))
        queues.give("a", uses(4))
        assert not may_reclaim(queues, "b", uses(4), "a", uses(1)), "a is not over any more"

    def test_not_from_a_queue_that_is_not_reclaimable(self) -> None:
        assert not may_reclaim(self.two(reclaimable=False).world.queues, "b", uses(4), "a", uses(16))

    def test_not_below_a_guarantee(self) -> None:
        queues = self.two(guarantee=gpus(8)).world.queues
        assert not may_reclaim(queues, "b", uses(2), "a", uses(16)), "guaranteed 8, entitled to 14"
        assert may_reclaim(queues, "b", uses(2), "a", uses(8))


def test_an_elastic_gang_that_is_cut_to_its_share_keeps_its_constraints() -> None:
    mine = Requirement("app", Operator.IN, ("x",))
    alone = replace(ONE, pod_anti_affinity=(PodTerm("host", (mine,), None),))
    pods = PodSet("main", alone, 4, 2, (("app", "x"),))
    asked = replace(gang("x", pods, minimum=2), namespace="ns")
    muster = cluster(queue("q", capability=gpus(2)), GangSubmitted(replace(asked, queue="q")), nodes=0)
    for name in "abcd":
        muster.apply(node(name, labels={"host": name}))
    (assign,) = assigns(muster.decide(0.0))
    assert where(assign) == ["a", "b"], "one to a node, each with room for all"


def test_a_minimum_of_which_no_mix_of_pods_is_within_the_caps_is_refused() -> None:
    """Every mix takes at least 2 GPUs and 2 CPUs, and none takes so little of both."""
    sets = PodSet("gpus", shape(gpu=2, cpu=1000), 2, 0), PodSet("cpus", shape(gpu=1, cpu=2000), 2, 0)
    capped = queue("q", capability=(("cpu", 3000), *gpus(2)))
    muster = cluster(capped, GangSubmitted(replace(gang("x", *sets, minimum=2), queue="q")))
    decisions = muster.decide(0.0)
    assert assigns(decisions) == []
    (wait,) = waits(decisions)
    assert wait.explanation.code is Code.QUOTA_EXCEEDED
    assert wait.explanation.message == "queue q uses 0 of its 3 CPUs; 4 more would be 4"


def test_ended_gangs_do_not_count_against_a_hard_cap() -> None:
    muster = cluster(queue("p", capability=gpus(2)), queue("q", parent="p"))
    for name in ("first", "second", "third"):
        muster.apply(submit(name, "q", 2))
        assert started(muster) == {name: 2}
        finish(muster, name)
    muster.decide(1.0)
    assert not any(account.used for account in muster.world.queues.accounts.values())


class TestOpenPlans:
    """Another scheduler takes over: what has been promised stays so, whatever queues would say today."""

    @pytest.mark.parametrize("rules", [{"deserved": gpus(1)}, {"capability": gpus(2)}], ids=["share", "cap"])
    def test_a_found_plan_is_not_searched_again(self, rules: dict[str, object]) -> None:
        plan = PlanFound(GangId("g"), {Place("main", i): NodeName("n1") for i in (0, 2, 3)})
        muster = cluster(queue("a", **rules), submit("g", "a", 8, minimum=2), plan)
        (assign,) = assigns(muster.decide(0.0))
        assert assign.nodes == plan.nodes

    def test_no_gang_with_missing_pods_is_before_it(self) -> None:
        muster = cluster(submit("lacks", "default", 2, priority=1), submit("g", "default", 2), nodes=1, gpu=3)
        muster.apply(PodsBound({PodId("there"): Place("main", 0)}, NodeName("n0"), gpus(1), GangId("lacks")))
        muster.apply(PlanFound(GangId("g"), {Place("main", i): NodeName("n0") for i in (0, 1)}))
        assert [start.gang for start in assigns(muster.decide(0.0))] == ["g"]


def test_a_gang_that_replaces_pods_in_their_places_asks_for_no_more_than_before() -> None:
    muster = cluster(queue("a"), queue("b"), submit("one", "a", 4))
    assert started(muster) == {"one": 4}
    muster.apply(submit("two", "b", 16))
    for pod in list(muster.world.gangs[GangId("one")].pods):
        muster.apply(PodsEnded((pod,), 0.0))  # their places are held for others in their stead
    muster.settle()
    entitled = {name: account.entitled[GPU_SHARE] for name, account in muster.world.queues.accounts.items()}
    assert entitled == {"default": 0, "a": 4000, "b": 12000}

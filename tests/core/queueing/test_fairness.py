"""Fairness in a tree of queues: what H-DRF is for, by the rules of docs/concepts/queues.md.

A scheduler that sums up what is used below an inner queue, and always serves the queue with the least
dominant share, starves leaves (Bhattacharya et al., SoCC 2013): a queue of which one leaf has all of a
resource that no other wants looks rich, and what its other leaf frees goes to other queues, gang by gang.
H-DRF mends that: it rescales what siblings use before it is summed, and does not count leaves that are
blocked. Here shares only order the queues. How much each leaf gets is divided per resource, before any queue
is served, and what a queue cannot use is lent. What must hold is the same: with load without end, and gangs
that end one after the other, each leaf comes to its entitlement and stays there, whatever its siblings use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.words.amounts import Usage
from muster.core.words.events import GangRemoved, GangSubmitted, PodsEnded, QueueChanged
from muster.core.words.gang import GangId, Queue, Shape
from muster.core.world.queues.account import Account
from tests.core.words import assigns, bind, gang, node, shape
from tests.tiers import examples

#: seconds that a gang says it runs
LIMIT = 10
CPU, GPU, BOTH = shape(cpu=1000), shape(gpu=1), shape(gpu=1, cpu=1000)


class Saturated:
    """One node, and leaves that want more of it than there is at any time, in gangs of one pod."""

    def __init__(self, queues: Mapping[str, str], *, cpu: int, gpu: int, weights: Mapping[str, int]) -> None:
        """`queues`: each with its parent."""
        self.muster = Scheduler(Config(explain=False))
        self.muster.apply(node("n", cpu=1000 * cpu, gpu=gpu, pods=None))
        for name, parent in queues.items():
            rules = Queue(name, parent=parent, weight=weights.get(name, 1), reclaimable=False)
            self.muster.apply(QueueChanged(rules))
        self.size, self.now, self.serial = cpu + gpu, 0.0, 0
        self.wanted: dict[str, Shape] = {}
        #: what runs, the oldest first
        self.running: dict[str, list[GangId]] = {}

    def comes(self, leaf: str, of: Shape) -> None:
        """From now on this leaf wants such gangs."""
        self.wanted[leaf], self.running[leaf] = of, []
        for _ in range(self.size):
            self.submit(leaf)
        self.fill()

    def submit(self, leaf: str) -> None:
        self.serial += 1
        one = gang(f"{leaf}/{self.serial:04}", count=1, of=self.wanted[leaf], submitted=self.now)
        self.muster.apply(GangSubmitted(replace(one, queue=leaf, limit=LIMIT)))

    def fill(self) -> None:
        """One cycle; for each that starts another one comes."""
        self.now += 1.0
        for assign in assigns(self.muster.decide(self.now)):
            bind(self.muster, assign)
            leaf = assign.gang.split("/")[0]
            self.running[leaf].append(assign.gang)
            self.submit(leaf)

    def ends(self, leaf: str) -> None:
        name = self.running[leaf].pop(0)
        self.muster.apply(PodsEnded(tuple(self.muster.world.gangs[name].pods), self.now))
        self.muster.apply(GangRemoved(name))
        self.fill()

    def all_end(self) -> None:
        """All that runs ends, one gang after the other, the longest first."""
        for name in sorted(name for names in self.running.values() for name in names):
            self.ends(name.split("/")[0])

    @property
    def runs(self) -> dict[str, int]:
        return {leaf: len(names) for leaf, names in self.running.items()}

    def owed(self, queue: str, of: Shape | None = None) -> int:
        """As many gangs as stay within the entitlement of the queue; of a leaf, those that it wants."""
        self.muster.settle()
        asked = Usage.of((of or self.wanted[queue]).requests)
        account = self.muster.world.queues.accounts[queue]
        return min(account.entitled[resource] // amount for resource, amount in asked.items())


def test_a_race_of_many_queues_compares_none_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def equal(one: object, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    made = Scheduler()
    made.apply(node("n"))
    for i in range(300):
        made.apply(QueueChanged(Queue(f"q{i:03}")))
        made.apply(GangSubmitted(replace(gang(f"g{i:03}"), queue=f"q{i:03}")))
    monkeypatch.setattr(Account, "__eq__", equal)
    assert len(assigns(made.decide(0.0))) == 8
    assert compared < 3000


def test_a_leaf_gets_its_share_though_its_sibling_has_all_of_something_else() -> None:
    tree = Saturated({"a": "root", "b": "root", "b-cpu": "b", "b-gpu": "b"}, cpu=10, gpu=8, weights={})
    tree.comes("b-cpu", CPU)
    tree.comes("a", GPU)
    assert tree.runs == {"b-cpu": 10, "a": 8}
    tree.comes("b-gpu", GPU)
    for number in range(1, 9):
        tree.ends("a")
        assert tree.runs["b-gpu"] == min(number, 4), "what a gives back of what it was lent is not a's again"
    for leaf in ("b-gpu", "b-cpu", "a", "b-gpu", "b-gpu", "b-gpu"):
        tree.ends(leaf)
        assert tree.runs == {"a": 4, "b-cpu": 10, "b-gpu": 4}, (
            "a queue that lost a gang is not passed over for that"
        )


def test_the_share_that_a_blocked_leaf_cannot_use_goes_to_its_siblings() -> None:
    tree = Saturated({"a": "root", "b": "root"}, cpu=2, gpu=8, weights={})
    tree.comes("a", BOTH)
    tree.comes("b", GPU)
    assert tree.runs == {"a": 2, "b": 6}, "without CPUs it has no use for the other half of the GPUs"
    for leaf in ("b", "a", "b", "b", "a"):
        tree.ends(leaf)
        assert tree.runs == {"a": 2, "b": 6}


def test_a_gang_that_needs_two_resources_is_not_starved_by_gangs_that_need_one() -> None:
    tree = Saturated({"a": "root", "b": "root", "b-cpu": "b", "b-gpu": "b"}, cpu=6, gpu=6, weights={})
    tree.comes("b-cpu", CPU)
    tree.comes("b-gpu", GPU)
    tree.comes("a", BOTH)
    assert tree.runs == {"b-cpu": 6, "b-gpu": 6, "a": 0}
    waited = 0
    for name in ("b-cpu", "b-gpu") * 20:
        tree.ends(name)
        if tree.runs["a"]:
            tree.ends("a")
            waited = 0
        waited += 1
        assert waited <= LIMIT, "reservations keep what has become free of one until the other is"


def test_a_queue_of_which_one_child_borrows_from_the_other_has_borrowed_nothing_itself() -> None:
    queues = {"a": "root", "a-1": "a", "a-2": "a", "b": "root"}
    tree = Saturated(queues, cpu=1, gpu=6, weights={})
    for leaf in ("a-1", "a-2", "b"):
        tree.comes(leaf, GPU)
    tree.all_end()
    assert sorted(tree.runs.values()) == [1, 2, 3], "a has 3 and each of its children half of that"
    accounts = tree.muster.world.queues.accounts
    before = accounts["a"].last_borrowed
    tree.ends(max("a-1", "a-2", key=tree.runs.__getitem__))
    assert tree.runs["b"] == 3
    assert max(accounts["a-1"].last_borrowed, accounts["a-2"].last_borrowed) > before
    assert accounts["a"].last_borrowed == before


def test_weights_count_at_each_level() -> None:
    queues = {"a": "root", "a-1": "a", "a-2": "a", "b": "root"}
    tree = Saturated(queues, cpu=4, gpu=16, weights={"a": 3, "a-2": 2})
    for leaf in ("b", "a-1", "a-2"):
        tree.comes(leaf, GPU)
    tree.all_end()
    assert tree.runs == {"a-1": 4, "a-2": 8, "b": 4}


def test_the_surplus_is_lent_in_turn() -> None:
    tree = Saturated(dict.fromkeys("abc", "root"), cpu=1, gpu=4, weights={})
    for leaf in "abc":
        tree.comes(leaf, GPU)
    tree.all_end()
    borrowers = []
    for _ in range(6):
        (borrower,) = [leaf for leaf, number in tree.runs.items() if number == 2]
        borrowers.append(borrower)
        tree.ends(borrower)
    assert borrowers[:3] == borrowers[3:]
    assert sorted(borrowers[:3]) == ["a", "b", "c"]


class Plan(NamedTuple):
    """Two levels of queues, whose leaves come one after the other."""

    queues: Mapping[str, str]
    weights: Mapping[str, int]
    cpu: int
    gpu: int
    comes: Sequence[tuple[str, Shape]]

    def grown(self) -> Saturated:
        tree = Saturated(self.queues, cpu=self.cpu, gpu=self.gpu, weights=self.weights)
        for leaf, of in self.comes:
            tree.comes(leaf, of)
        return tree


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    queues: dict[str, str] = {}
    for top in "abc"[: draw(st.integers(2, 3))]:
        queues[top] = "root"
        queues |= {f"{top}-{i}": top for i in range(draw(st.sampled_from([0, 2, 3])))}
    weights = {queue: draw(st.integers(1, 3)) for queue in queues}
    cpu, gpu = draw(st.integers(4, 8)), draw(st.integers(4, 8))
    leaves = draw(st.permutations([queue for queue in queues if queue not in queues.values()]))
    return Plan(
        queues, weights, cpu, gpu, [(leaf, draw(st.sampled_from([CPU, GPU, GPU]))) for leaf in leaves]
    )


#: c-2 is entitled to 2 GPUs and uses one of them when c is lent one: it is c-2's, not a fourth for c-1
SHORT: Final = Plan(
    {"a": "root", "b": "root", "c": "root"} | {f"{top}-{i}": top for top in "bc" for i in range(3)},
    {"c": 3},
    cpu=4,
    gpu=6,
    comes=[("a", CPU), ("b-0", GPU), ("b-1", GPU), ("c-0", CPU), ("b-2", GPU), ("c-1", GPU), ("c-2", GPU)],
)
#: a-1 is entitled to a GPU, a-2 to less and has two, a to 1.75: c's turn is before a is lent one again
IN_TURN: Final = Plan(
    {"a": "root", "b": "root", "c": "root"} | {f"{top}-{i}": top for top in "abc" for i in range(3)},
    {"a-0": 2, "a-1": 3, "a-2": 2, "c": 2, "c-0": 3, "c-2": 2},
    cpu=7,
    gpu=7,
    comes=[
        *[("b-2", CPU), ("a-0", CPU)],
        *((leaf, GPU) for leaf in ("c-2", "a-2", "b-1", "a-1", "c-1", "b-0", "c-0")),
    ],
)
#: a, entitled to 3.6 GPUs, is lent a fourth: three of four are a-1's, though a-1 was lent one last
LENT_AGAIN: Final = Plan(
    {"a": "root", "a-0": "a", "a-1": "a", "b": "root", "c": "root", "c-0": "c", "c-1": "c"},
    {"a": 3, "a-1": 3, "b": 3, "c": 2, "c-0": 2},
    cpu=5,
    gpu=6,
    comes=[("c-1", GPU), ("b", CPU), ("a-1", GPU), ("c-0", GPU), ("a-0", GPU)],
)
#: the same of a queue that has gangs that need CPUs, too
LENT_BESIDE: Final = Plan(
    {"a": "root", "b": "root", "c": "root"} | {f"a-{i}": "a" for i in range(3)} | {"c-0": "c", "c-1": "c"},
    {"a-0": 2, "a-1": 3, "a-2": 2, "b": 3, "c-0": 3, "c-1": 3},
    cpu=6,
    gpu=7,
    comes=[("a-2", CPU), ("a-1", GPU), ("b", CPU), ("a-0", GPU), ("c-0", GPU), ("c-1", GPU)],
)


@example(LENT_AGAIN, [7, 3, 8, 1, 8, 3, 1, 8, 5, 2, 0, 6])
@example(LENT_BESIDE, [0, 2, 0, 3, 6, 2, 5, 0, 5, 2, 6, 2])
@example(SHORT, [1, 3, 4])
@example(IN_TURN, [3, 6, 1, 7, 4, 8, 3])
@given(plans(), st.lists(st.integers(0, 8), min_size=12, max_size=12))
@settings(max_examples=examples(25), deadline=None)
def test_every_leaf_comes_to_its_entitlement_and_stays_there(plan: Plan, order: list[int]) -> None:
    """`order`: whose gang ends next, by its number among the leaves of which any runs."""
    tree = plan.grown()
    tree.all_end()
    for end in order:
        owed = {leaf: tree.owed(leaf) for leaf in tree.running}
        more = {leaf: number - owed[leaf] for leaf, number in tree.runs.items()}
        for of in (CPU, GPU):
            alike = [leaf for leaf, wanted in tree.wanted.items() if wanted is of]
            lent = sum(more[leaf] for leaf in alike)
            assert 0 <= lent < max(len(alike), 1), "less than a gang for each cannot be divided evenly"
            for family in sorted({leaf.split("-")[0] for leaf in alike}):
                siblings = {leaf: more[leaf] for leaf in alike if leaf.split("-")[0] == family}
                assert sum(siblings.values()) >= 0, (tree.runs, owed)
                if min(siblings.values()) < 0:
                    gives_back(tree, family, siblings)
                    break
        names = sorted(leaf for leaf, running in tree.running.items() if running)
        ends(tree, names[end % len(names)])


def gives_back(tree: Saturated, family: str, more: Mapping[str, int]) -> None:
    """Some of these siblings lack what others were lent: they get it when that ends.

    No sibling is before them. Another family is only if this one borrows as a whole and lacks nothing: what
    it borrowed is lent in turn.
    """
    more, of = dict(more), tree.wanted[next(iter(more))]
    while True:
        was_lent = sum(tree.runs[leaf] for leaf in more) - tree.owed(family, of)
        rich = max(more, key=lambda leaf: more[leaf])
        more[rich] -= 1
        if ends(tree, rich) in more:
            return
        assert was_lent > 0, tree.runs


def ends(tree: Saturated, leaf: str) -> str | None:
    """The oldest gang of this leaf ends. No leaf starts a gang on borrowed room while a sibling lacks one.

    What a family borrows is divided among its leaves, so a start may itself make that a sibling is owed more:
    such a sibling did not lack it before.
    """
    before, owed = tree.runs, {name: tree.owed(name) for name in tree.runs}
    before[leaf] -= 1
    tree.ends(leaf)
    started = [name for name, number in tree.runs.items() if number > before[name]]
    for name in started:
        family, of = name.split("-")[0], tree.wanted[name]
        alike = [other for other in before if other.split("-")[0] == family and tree.wanted[other] is of]
        short = [other for other in alike if before[other] < min(owed[other], tree.owed(other))]
        assert name in short or not short, (name, before)
    return started[0] if started else None


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(1, 24))
def test_from_nothing_shares_by_weight_differ_by_one_gang_at_most(weights: list[int], gpu: int) -> None:
    names = "abcde"[: len(weights)]
    tree = Saturated(
        dict.fromkeys(names, "root"), cpu=1, gpu=gpu, weights=dict(zip(names, weights, strict=True))
    )
    for leaf in names:
        tree.wanted[leaf], tree.running[leaf] = GPU, []
        for _ in range(tree.size):
            tree.submit(leaf)
    tree.fill()
    shares = [Fraction(tree.runs[leaf], weight) for leaf, weight in zip(names, weights, strict=True)]
    assert sum(tree.runs.values()) == gpu
    assert max(shares) - min(shares) <= 1

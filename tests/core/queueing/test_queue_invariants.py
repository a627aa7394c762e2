"""What holds of queues after every cycle, whatever comes: trees, rules, gangs and nodes drawn at random."""

import random
from collections import Counter
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.placement.packing import Pack
from muster.core.placement.slots import Slots
from muster.core.words.amounts import Usage
from muster.core.words.events import GangRemoved, GangSubmitted, PodsEnded, QueueChanged, QueueRemoved
from muster.core.words.gang import Code, GangId, PodSet, Queue, QueueOrder
from muster.core.world.eligibility import Eligibility
from muster.core.world.queues.account import Account
from tests.core.words import GPU, amounts, assigns, bind, gang, node, shape
from tests.tiers import examples

NAMES = ("a", "b", "a1", "a2", "b1")


class Life:
    """A cluster and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.muster = Scheduler()
        self.now = 0.0
        for i in range(self.rng.randint(1, 4)):
            self.muster.apply(node(f"n{i}", gpu=self.rng.randint(1, 8)))
        for _ in range(self.rng.randint(0, 5)):
            self.rule()

    def rule(self) -> None:
        """Rules of a queue change. A parent above it by name, so that there is no cycle."""
        rng = self.rng
        name = rng.choice(NAMES)
        guarantee = rng.choice([0, 0, 1, 2])
        cap = rng.choice([None, None, guarantee + rng.randint(0, 6)])
        rules = Queue(
            name,
            parent=name[0] if len(name) > 1 and rng.random() < 0.8 else "root",
            weight=rng.randint(1, 4),
            guarantee=amounts({GPU: guarantee}),
            deserved=amounts({GPU: guarantee + 1}) if cap is None and rng.random() < 0.2 else None,
            capability=amounts({GPU: cap}) if cap is not None else (),
            order=rng.choice(list(QueueOrder)),
            closed=rng.random() < 0.1,
            max_gangs=rng.choice([None, None, 3]),
        )
        self.muster.apply(QueueChanged(rules))

    def step(self) -> None:
        rng = self.rng
        kind = rng.random()
        gangs = sorted(self.muster.world.gangs)
        if kind < 0.6:
            count = rng.randint(1, 6)
            least = rng.choice([count, rng.randint(0, count)])
            pods = PodSet("main", shape(gpu=rng.randint(0, 2), cpu=1000), count, least)
            asked = gang(
                f"g{rng.randint(0, 30)}",
                pods,
                minimum=least,
                submitted=self.now,
                priority=rng.choice([0, 0, 1]),
            )
            asked = replace(
                asked, queue=rng.choice((*NAMES, "default")), namespace=rng.choice("xy"), preempts=False
            )
            self.muster.apply(GangSubmitted(asked))
        elif kind < 0.85 and gangs:
            name = rng.choice(gangs)
            for pod in sorted(self.muster.world.gangs[name].pods):
                self.muster.apply(PodsEnded((pod,), self.now))
            self.muster.apply(GangRemoved(name))
        elif kind < 0.93:
            self.rule()
        elif kind < 0.96:
            self.muster.apply(QueueRemoved(rng.choice(NAMES)))
        else:
            self.muster.apply(node("n0", gpu=rng.randint(0, 8), cordoned=rng.random() < 0.3))

    def decide(self) -> list[str]:
        self.now += 1.0
        self.muster.settle()
        before = {name: dict(account.used) for name, account in self.muster.world.queues.accounts.items()}
        begun: list[str] = []
        for assign in assigns(self.muster.decide(self.now)):
            begun.append(assign.gang)
            bind(self.muster, assign)
        self.muster.settle()
        self.check(before)
        return begun

    def check(self, before: dict[str, dict[str, int]]) -> None:
        queues = self.muster.world.queues
        for parent in (queues.root, *queues.accounts.values()):
            for resource, entitled in parent.entitled.items():
                given_away = sum(child.entitled[resource] for child in parent.children)
                held = parent.used[resource] if parent is not queues.root else 0
                assert given_away <= max(entitled, held), "children are entitled to what their parent has"
        for account in queues.accounts.values():
            for resource, cap in account.caps.items():
                used = account.used.get(resource, 0)
                assert used <= max(cap, before[account.name].get(resource, 0)), "no start exceeds a cap"
        self.check_sums()
        self.check_work_conservation()

    def check_sums(self) -> None:
        used: dict[str, Counter[str]] = {name: Counter() for name in self.muster.world.queues.accounts}
        for state in self.muster.world.gangs.values():
            account = self.muster.world.queues.find(state.gang.queue) if state.gang is not None else None
            for above in account.path if account is not None else ():
                for resource, amount in Usage.of(state.usage.items()).items():
                    used[above.name][resource] += amount
        for name, account in self.muster.world.queues.accounts.items():
            assert account.used == {resource: n for resource, n in used[name].items() if n}

    def check_work_conservation(self) -> None:
        """A gang that waits and that no rule refused does not fit: nothing idles for the sake of shares."""
        muster = self.muster
        fresh = Slots(Pack(muster.world.nodes, Eligibility(muster.world.nodes)))
        for state in muster.world.gangs.values():
            if state.demand is None or not state.waits or state.back_off or state.holds:
                continue
            assert state.explanation is not None
            if state.explanation.code in (Code.INVALID, Code.QUEUE_CLOSED, Code.QUOTA_EXCEEDED):
                continue
            (part,) = state.demand.parts
            assert fresh.of(part.shape).total < max(state.demand.need, part.need)


@given(st.integers(0, 100_000))
@example(9446).via("gangs of one kind while their queue's order changes")
@settings(max_examples=examples(60), deadline=None)
def test_invariants_after_every_cycle(seed: int) -> None:
    life = Life(seed)
    for _ in range(15):
        for _ in range(life.rng.randint(1, 4)):
            life.step()
        life.decide()


@given(st.integers(0, 100_000))
@settings(max_examples=examples(15), deadline=None)
def test_the_same_again(seed: int) -> None:
    one, other = Life(seed), Life(seed)
    for _ in range(8):
        one.step()
        other.step()
        assert one.decide() == other.decide()


@given(st.integers(0, 100_000))
@settings(max_examples=examples(30), deadline=None)
def test_within_goes_before_over(seed: int) -> None:
    """Among gangs of one GPU, none that carries its queue over starts while one within could."""
    rng = random.Random(seed)
    muster = Scheduler()
    muster.apply(node("n", gpu=rng.randint(1, 8)))
    for name in "abc":
        muster.apply(QueueChanged(Queue(name, weight=rng.randint(1, 4))))
    for i in range(20):
        one = gang(f"g{i}", PodSet("main", shape(gpu=1), 1, 1), minimum=1, priority=rng.randint(0, 2))
        muster.apply(GangSubmitted(replace(one, queue=rng.choice("abc"))))
    muster.settle()
    accounts = {name: muster.world.queues.accounts[name] for name in "abc"}
    for assign in assigns(muster.decide(0.0)):
        state = muster.world.gangs[GangId(assign.gang)]
        assert state.gang is not None
        account = accounts[state.gang.queue]
        others = [other for other in accounts.values() if other is not account and other.waiting]
        if _over(account):
            assert all(_full(other) for other in others)


def _over(account: Account) -> bool:
    return any(used > account.entitled.get(resource, 0) for resource, used in account.used.items())


def _full(account: Account) -> bool:
    """One more pod of one GPU would carry it over."""
    return any(
        account.used.get(resource, 0) + one > account.entitled.get(resource, 0)
        for resource, one in Usage.of(amounts({GPU: 1, "pods": 1})).items()
    )

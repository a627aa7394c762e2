"""Whatever goes wrong: seeded histories with faults of all kinds, under a virtual clock.

Lost answers (with effect and without), conflicts, a busy server, other writers, dying leaders, controllers
that pause, make fewer or more pods, a member that is refused for long, a node that vanishes. Each run must
come to rest with every gang whole, waiting or, without an owner, degraded with its reason; no node is ever
oversubscribed (the model looks after every write); and recovering twice changes nothing.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from muster.api import kinds
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.core.cycle import Scheduler
from muster.kube.errors import Conflict, Invalid, TooManyRequests
from muster.runtime.commit.view import Limits
from tests.runtime.model import Kind, Making, Running
from tests.runtime.server import AnyKind, ServerClient, lost
from tests.runtime.test_crashes import Case
from tests.runtime.test_repeats import play
from tests.tiers import sample

SEEDS = [816, 5301, *range(200)]  # the first two have found something once
CALM = 300.0  # seconds after which nothing goes wrong by chance any more


@dataclass
class Trouble:
    """One seed's worth of bad luck."""

    seed: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        choose = self.random.choice
        self.case = Case(choose((1, 2, 3, 4)), choose(KINDS), choose((None, None, "job", "free job")))
        if self.case.kind == "bare" and self.seed % 3 == 1:
            self.case = replace(self.case, kind="remade")
        self.cluster = self.case.cluster()
        self.own_core = self.case.victim is None and choose((True, False))
        self.rate = choose((0.0, 0.1, 0.3, 0.6))
        self.refused = choose((None, None, 0))  # the member that is refused for a long time
        making = choose((None, None, Making(at_most=self.case.size - 1), Making(twice=frozenset({0}))))
        if making is not None:
            self.cluster.making["main"] = making
        self.hopeless = making is not None and making.at_most < self.case.size

    def leader(self, epoch: int) -> Running:
        core: Any = Scheduler() if self.own_core else None
        return Running(self.cluster, epoch, core=core, wrap=self._wrap)

    def _wrap(self, client: ServerClient) -> ServerClient:
        return ServerClient(client.server, self._fault)

    def _fault(self, verb: str, kind: AnyKind, key: str) -> tuple[Exception, bool] | None:
        if verb == "bind" and self.refused is not None and self._is_refused(key):
            return Invalid("spec: this pod is never right"), False
        if self.cluster.server.time > CALM or self.random.random() >= self.rate:
            return None
        return self.random.choice(
            [(lost(), True), (lost(), False), (Conflict("late"), False), (TooManyRequests("busy"), False)]
        )

    def _is_refused(self, key: str) -> bool:
        meta = self.cluster.server.objects[kinds.POD, key]["metadata"]
        if not meta["name"].startswith("main"):
            return False
        index = meta.get("annotations", {}).get(COMPLETION_INDEX, meta["name"].rpartition("-")[2])
        return index in (str(self.refused), "main")

    def happen(self) -> None:
        """Something else goes on in the cluster."""
        happens = self.random.randrange(3)
        if happens == 0:
            self._someone_writes()
        elif happens == 1:
            self._a_node_goes()

    def _someone_writes(self) -> None:
        kind, key = self.random.choice(sorted(self.cluster.server.objects, key=lambda k: (k[0].kind, k[1])))
        if kind in (kinds.POD, kinds.JOB, kinds.POD_GROUP_X, kinds.GANG):
            note = {"metadata": {"annotations": {"example.com/note": str(self.cluster.server.revision)}}}
            self.cluster.server.patch(kind, key, note)

    def _a_node_goes(self) -> None:
        """With its pods, or without those that a controller replaces; another of its size comes."""
        server = self.cluster.server
        if server.time > CALM or self.random.random() < 0.7:
            return
        node = self.random.choice(server.all(kinds.NODE))
        server.end(kinds.NODE, node.metadata.name)
        stay = self.random.random() < 0.5
        for pod in server.all(kinds.POD):
            if pod.spec.node_name == node.metadata.name and not (stay and pod.metadata.owner_references):
                self.cluster.kept.pop(pod.metadata.name, None)
                server.end(kinds.POD, pod.key)
        room = int(node.status.allocatable["cpu"])
        self.cluster.node(f"{node.metadata.name}x", room)


KINDS: tuple[Kind, ...] = ("job", "free job", "bare")


@pytest.mark.parametrize("seed", sample(SEEDS, 40))
def test_whatever_goes_wrong(seed: int) -> None:
    trouble = Trouble(seed)
    cluster, case = trouble.cluster, trouble.case
    epoch = 2
    leader = trouble.leader(epoch)
    for _ in range(trouble.random.randrange(1, 6)):
        stopped = leader.quiesce(writes=leader.writes + trouble.random.randrange(12))
        if trouble.random.random() < 0.5:
            trouble.happen()
        if trouble.random.random() < 0.5:
            cluster.server.time += trouble.random.choice((0.1, 3.0, 20.0, 70.0))
        if stopped and trouble.random.random() < 0.5:
            leader.stop()
            epoch += 1
            leader = trouble.leader(epoch)
    cluster.server.time = max(cluster.server.time, CALM) + 1
    if trouble.refused is not None:  # it is retried as long as it is refused
        play(cluster, leader, 2 * Limits().refused[1])
        trouble.refused = None
    leader.quiesce()
    leader.stop()
    alone = case.kind in ("bare", "remade")
    gone_with_its_node = alone and len(cluster.server.all(kinds.POD)) < case.size
    ended = {"whole"} if not (trouble.hopeless or gone_with_its_node) else {"waiting", "degraded", "whole"}
    outcome = cluster.outcome("main", case.size)
    assert outcome in ended
    assert outcome != "degraded" or case.kind == "bare" or gone_with_its_node
    if case.victim:
        assert cluster.outcome("victim", case.size) in ("whole", "waiting")
    _recover_twice(trouble, epoch)


def _recover_twice(trouble: Trouble, epoch: int) -> None:
    """The first may try again what has failed too often; the second finds nothing to do."""
    trouble.rate = 0.0
    dumps = []
    for again in (1, 2):
        leader = trouble.leader(epoch + again)
        leader.quiesce()
        leader.stop()
        dumps.append(trouble.cluster.dump())
        trouble.cluster.outcome("main", trouble.case.size)
    if not trouble.hopeless:
        assert dumps[0] == dumps[1]

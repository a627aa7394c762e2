"""Which changes make the committer look at a gang again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from muster.api.base import AnyKind, Resource
from muster.api.core_v1 import Pod
from muster.api.rates import Rates
from muster.core.words.gang import GangId
from muster.effects import Evict
from muster.effects.execute import Outcome
from muster.kube.errors import Conflict
from muster.runtime.committer import LONGEST_WAIT, Committer
from muster.runtime.plan import Plan
from muster.translate.group import Group

GANG, OTHER = GangId("ns/g"), GangId("ns/other")


@dataclass
class Seen:
    """A mirror that shows one pod."""

    pod: Pod
    groups: dict[GangId, Group] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    rates: Rates = field(default_factory=Rates)

    def plans(self, gang: GangId) -> Sequence[Plan]:
        return ()

    def planned(self) -> Sequence[GangId]:
        return ()

    def gangs_of(self, owner_uid: str) -> Sequence[GangId]:
        return ()

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.pod


def pod(version: str) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": version}}, Pod
    )


@pytest.mark.parametrize("error", [None, Conflict("its status has changed")])
def test_a_change_that_decides_nothing_may_be_the_one_that_a_write_waits_for(error: Exception | None) -> None:
    seen = Seen(pod("1"))
    committer = Committer(seen, epoch=1)
    committer.done(GANG, [Outcome(Evict(seen.pod), error)], now=0.0)
    assert committer.due(0.0) == [], "the mirror does not show the write"
    committer.renewed(OTHER)
    committer.renewed(GANG)
    assert committer.due(1.0) == [], "it still does not"
    seen.pod = pod("2")
    committer.renewed(GANG)
    assert committer.due(1.0) == [GANG]
    committer.renewed(GANG)
    assert committer.due(LONGEST_WAIT - 1) == [], "nothing waits for it any more"

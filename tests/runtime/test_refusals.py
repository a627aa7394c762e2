"""A member that admission refuses: its gang is given back, told why, and whole soon after that ends."""

from dataclasses import dataclass, field

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.core.cycle import Scheduler
from muster.kube.errors import Forbidden, ServerError, Unauthorized
from tests.runtime.model import Cluster, Kind, Running
from tests.runtime.server import AnyKind, ServerClient
from tests.runtime.test_repeats import play
from tests.tiers import sample

SIZE = 10
#: Seconds in which the nine others are given back, and in which the gang starts once nothing refuses it.
GIVEN_BACK, RETRIED = 2.0, 31.0
#: Seconds after which a gang is whole once a watch shows that the policy that refused it is gone, and for
#: which the API server still goes by the policy.
READMITTED, LATE = 5.0, 1.0


@dataclass
class Refused:
    """A gang of ten, one of which (or `everyone`) a policy refuses until it ends."""

    kind: Kind
    nodes: int = 2
    everyone: bool = False
    cluster: Cluster = field(default_factory=Cluster)
    refuses: bool = True
    error: Exception = field(default_factory=lambda: Forbidden("denied: pods need the label approved"))
    #: what each write of a Gang is answered
    unrecorded: Exception | None = None
    binds: list[str] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        for node in range(self.nodes):
            self.cluster.node(f"n{node}", SIZE)
        self.cluster.gang("main", SIZE, self.kind)
        self.cluster.settle()
        self.leader = Running(self.cluster, 2, core=Scheduler(), wrap=self._wrap)
        self.leader.take_over()
        self.leader.mirror.changed.set()

    def _wrap(self, client: ServerClient) -> ServerClient:
        return ServerClient(client.server, self._fault)

    def _fault(self, verb: str, kind: AnyKind, key: str) -> tuple[Exception, bool] | None:
        if kind is kinds.GANG and self.unrecorded is not None and verb in ("create", "patch"):
            self.asked += 1
            return self.unrecorded, False
        if verb != "bind":
            return None
        self.binds.append(key)
        pod = self.cluster.server.objects[kinds.POD, key]
        if (
            self.refuses
            and (self.everyone or _index(pod) == "3")
            and "approved" not in pod["metadata"].get("labels", {})
        ):
            return self.error, False
        return None

    def told(self) -> str:
        record = self.cluster.record("main")
        assert record is not None
        assert record.status.reason is not None
        return record.status.reason.message


def _index(pod: Object) -> str:
    return str(pod["metadata"]["name"]).split("-")[1]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_the_others_are_given_back_and_the_server_is_quoted(kind: Kind, nodes: int) -> None:
    refused = Refused(kind, nodes)
    play(refused.cluster, refused.leader, GIVEN_BACK)
    assert len(refused.binds) >= SIZE
    assert refused.cluster.bound("main") == 0
    assert "(" in refused.told()
    assert "is refused by the API server: denied: pods need the label approved" in refused.told()


@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_a_bind_that_always_fails_in_the_server_counts_as_refused_within_seconds(kind: Kind) -> None:
    """A webhook that fails is a server error: 500."""
    refused = Refused(kind, error=ServerError("Internal error occurred: failed calling webhook"))
    play(refused.cluster, refused.leader, 15.0)
    assert refused.cluster.bound("main") == 0
    assert "failed calling webhook" in refused.told()
    play(refused.cluster, refused.leader, 85.0)
    others = [key for key in refused.binds if key.split("-")[1] != "3"]
    assert len(others) == SIZE - 1, "no other is bound in vain again"
    assert len(refused.binds) - len(others) < 20
    refused.refuses = False
    play(refused.cluster, refused.leader, RETRIED)
    assert refused.cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_so_do_the_binds_of_all_members_as_soon(kind: Kind) -> None:
    refused = Refused(
        kind, everyone=True, error=ServerError("Internal error occurred: failed calling webhook")
    )
    play(refused.cluster, refused.leader, 5.0)
    assert "failed calling webhook" in refused.told()
    play(refused.cluster, refused.leader, 85.0)
    assert len(refused.binds) < 15 * SIZE
    refused.refuses = False
    play(refused.cluster, refused.leader, RETRIED)
    assert refused.cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_a_server_error_that_passes_is_only_retried(kind: Kind) -> None:
    refused = Refused(kind, error=ServerError("etcdserver: leader changed"))
    play(refused.cluster, refused.leader, 1.0)
    refused.refuses = False
    play(refused.cluster, refused.leader, 2.0)
    assert refused.cluster.outcome("main", SIZE) == "whole"
    assert len(set(refused.binds)) == SIZE, "no pod was made anew"


def late() -> ServerError:
    error = ServerError("the server was unable to return a response in the time allotted")
    error.status = 504
    return error


def test_a_server_that_has_no_time_refuses_nobody() -> None:
    refused = Refused("job", error=late())
    play(refused.cluster, refused.leader, 30.0)
    assert refused.cluster.bound("main") == SIZE - 1, "the others stay bound"
    refused.refuses = False
    play(refused.cluster, refused.leader, 11.0)
    assert refused.cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_a_server_that_has_no_time_for_a_minute_has_the_gang_given_back(kind: Kind, everyone: bool) -> None:
    refused = Refused(kind, everyone=everyone, error=late())
    play(refused.cluster, refused.leader, 65.0)
    assert refused.cluster.bound("main") == 0
    assert "within 60 s; the last error: the server was unable to return a response" in refused.told()
    play(refused.cluster, refused.leader, 900.0)
    refused.refuses = False
    play(refused.cluster, refused.leader, 301.0)
    assert refused.cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("error", [Forbidden("denied: no Gangs"), ServerError("failed calling webhook")])
@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_a_gang_whose_record_is_refused_however_long_starts_soon_after(kind: Kind, error: Exception) -> None:
    refused = Refused(kind, unrecorded=error)
    play(refused.cluster, refused.leader, 900.0)
    assert not refused.binds
    assert 30 < refused.asked < 60
    refused.unrecorded = None
    refused.refuses = False
    play(refused.cluster, refused.leader, RETRIED)
    assert refused.cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_refused_credentials_do_not_count_as_refusals_of_the_gang(kind: Kind) -> None:
    refused = Refused(kind, error=Unauthorized("Unauthorized"))
    play(refused.cluster, refused.leader, 10.0)
    bound = refused.cluster.bound("main")
    assert bound == SIZE - 1, "the others stay bound"
    refused.refuses = False
    play(refused.cluster, refused.leader, 11.0)
    assert refused.cluster.bound("main") == SIZE
    assert len(set(refused.binds)) == SIZE, "no pod was made anew"


@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_a_refused_gang_is_retried_with_the_refused_member_first_and_starts_once_admission_allows_it(
    kind: Kind,
) -> None:
    refused = Refused(kind)
    play(refused.cluster, refused.leader, 100.0)
    assert refused.cluster.bound("main") == 0
    others = [key for key in refused.binds if key.split("-")[1] != "3"]
    assert len(others) == SIZE - 1, "no other is bound in vain again"
    assert len(refused.binds) - len(others) < 12
    refused.refuses = False
    play(refused.cluster, refused.leader, RETRIED)
    assert refused.cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("kind", ["free job", "remade"])
def test_a_refused_gang_is_retried_at_once_if_the_refused_member_changes(kind: Kind) -> None:
    refused = Refused(kind)
    play(refused.cluster, refused.leader, 60.0)
    server = refused.cluster.server
    (pod,) = (pod for pod in server.all(kinds.POD) if pod.metadata.name.split("-")[1] == "3")
    labelled = {**server.objects[kinds.POD, pod.key]}
    labelled["metadata"] = {**labelled["metadata"], "labels": {**pod.metadata.labels, "approved": "yes"}}
    refused.cluster.kept.clear()
    server._store(kinds.POD, pod.key, labelled)
    refused.leader.look()
    play(refused.cluster, refused.leader, 1.0)
    assert refused.cluster.outcome("main", SIZE) == "whole"


def readmit(refused: Refused) -> None:
    """A watch shows that the policy is gone."""
    refused.leader.mirror.readmitted = True
    refused.leader.mirror.changed.set()


@pytest.mark.parametrize("after", sample([3.0, 300.0, 47.0, 90.0], 2))
@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("late", [0.0, LATE])
@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_a_refused_gang_is_whole_soon_after_the_policy_that_refused_it_is_gone(
    kind: Kind, late: float, everyone: bool, after: float
) -> None:
    """Also if the API server goes by the policy for another second."""
    refused = Refused(kind, everyone=everyone)
    play(refused.cluster, refused.leader, after)
    assert refused.cluster.bound("main") == 0
    refused.refuses = late > 0
    readmit(refused)
    play(refused.cluster, refused.leader, late)
    refused.refuses = False
    play(refused.cluster, refused.leader, READMITTED - late)
    assert refused.cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("error", [Forbidden("denied: no Gangs"), ServerError("failed calling webhook")])
@pytest.mark.parametrize("kind", ["job", "free job", "remade"])
def test_so_is_a_gang_whose_record_was_refused(kind: Kind, error: Exception) -> None:
    refused = Refused(kind, unrecorded=error)
    play(refused.cluster, refused.leader, 900.0)
    refused.unrecorded, refused.refuses = None, False
    readmit(refused)
    play(refused.cluster, refused.leader, READMITTED)
    assert refused.cluster.outcome("main", SIZE) == "whole"


def test_admission_that_changes_all_the_time_costs_few_binds() -> None:
    """Some clusters rewrite their webhooks every second."""
    refused = Refused("job")
    play(refused.cluster, refused.leader, 60.0)
    before = len(refused.binds)
    for _ in range(100):
        readmit(refused)
        play(refused.cluster, refused.leader, 1.0)
    assert len(refused.binds) - before <= 80, "the pauses of 5 s have three binds each"
    assert refused.cluster.bound("main") == 0

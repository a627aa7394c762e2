"""Why, asked on purpose: the whole answer for any gang, and nothing that contradicts what is on record."""

import pytest
from msgspec.structs import replace

from muster.api import kinds
from muster.api.base import Object
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod, ResourceQuota
from muster.api.muster_v1alpha1 import Gang, GangStatus
from muster.app.snapshot import Snapshot
from muster.app.views import why
from muster.app.views.job import JobView, State
from muster.names import QUEUE, RUN_TIME
from muster.workloads.snapshot import Objects
from tests.app.plan.test_plan import job, node, objects, pod, resource_quota


def answered(
    view: JobView, cluster: Objects, now: float, schedulers: frozenset[str] | None
) -> tuple[JobView, Object | None]:
    return why.answered(view, Snapshot(cluster, schedulers, now=now), embedded=schedulers is None)


def waiting(name: str, code: str) -> JobView:
    """As the scheduler has put it on record, without any remedy."""
    record = Gang(status=GangStatus(phase="Waiting", explanation={"code": code, "message": ""}))
    record = replace(record, metadata=replace(record.metadata, name=f"job-{name}", namespace="default"))
    resource = Job()
    return JobView(kinds.JOB, resource, State.WAITING, 2, 0, 0, 0, reason=(code, ""), gangs=(record,))


def made(name: str, gpus: int, number: int, **marks: str) -> Object:
    """A Job that is planned from its template, older than those with higher numbers."""
    found = job(name, 2, gpus, gang=True, suspend=True)
    found["metadata"]["labels"] |= {"muster.dev/admission": "gang"} | marks
    found["metadata"]["uid"] = name
    found["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{number:02}Z"
    return found


def test_a_gang_far_behind_gets_as_full_an_explanation_as_the_first() -> None:
    jobs = [made(f"j{i}", 3, i) for i in range(9)]
    cluster = objects(node("n0"), *jobs)
    view, alone = answered(waiting("j8", "NothingMatches"), cluster, 1e9, None)
    assert alone is None
    assert view.gangs[0].status.explanation == {"code": "NothingMatches", "message": ""}, "it is not so"

    view, _ = answered(waiting("j8", "InsufficientCapacity"), cluster, 1e9, None)
    told = view.gangs[0].status.explanation
    assert told is not None
    assert [remedy["change"] for remedy in told["remedies"]] == ["with 3 GPUs (1 × 3)"]


def test_a_gang_that_the_nodes_can_never_hold_is_told_which_nodes_could() -> None:
    cluster = objects(node("n0"), made("big", 50, 0))
    view, _ = answered(waiting("big", "NothingMatches"), cluster, 1e9, None)
    told = view.gangs[0].status.explanation
    assert told is not None
    (nodes, cancel) = told["remedies"]
    assert nodes["effect"] == "would start"
    assert '--nodes "2 x nvidia.com/gpu=50"' in nodes["change"]
    assert cancel["effect"] == "would end"
    view, _ = answered(waiting("big", "NothingMatches"), cluster, 1e9, frozenset({""}))
    told = view.gangs[0].status.explanation
    assert told is not None
    assert told["remedies"] == [], "other nodes may come to a real cluster"


def test_the_expected_start_considers_the_gangs_in_front() -> None:
    jobs = [made(f"j{i}", 2, i, **{RUN_TIME: "1h"}) for i in range(6)]
    view, _ = answered(waiting("j5", "InsufficientCapacity"), objects(node("n0"), *jobs), 1e9, None)
    told = view.gangs[0].status.explanation
    assert told is not None
    assert told["expectedStart"] == {
        "at": "2001-09-09T06:46:40Z",
        "basis": "when 2 others, default/j2, default/j3 and default/j4 have ended",
    }


def test_pods_on_their_own_are_asked_about_as_well() -> None:
    alone = pod("p", 3)
    alone["metadata"]["uid"] = "p"
    cluster = objects(node("n0"), pod("q", 2, node="n0"), alone)
    found = cluster.items[kinds.POD, "default", "p"]
    assert isinstance(found, Pod)
    reason = ("InsufficientCapacity", "3 GPUs asked as 1 × 3; 2 are free")
    view = JobView(kinds.POD, found, State.WAITING, 1, 0, 0, 0, reason=reason, pods=(found,))
    _, told = answered(view, cluster, 1e9, None)
    assert told is not None
    assert told["podSets"] == [{"name": "main", "wanted": 1, "fits": 0, "limitedBy": {"nvidia.com/gpu": 1}}]


def test_a_queue_over_its_share_waits_until_the_other_has_run() -> None:
    """The first worked example of docs/concepts/queues.md, from objects on."""
    queues: list[Object] = [
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": weight},
        }
        for name, weight in (("a", 3), ("b", 1))
    ]
    big, small = made("big", 8, 1, **{QUEUE: "a"}), made("small", 2, 2, **{QUEUE: "b", RUN_TIME: "1h"})
    cluster = objects(node("n0", 8), node("n1", 8), *queues, big, small)
    view, _ = answered(waiting("big", "OverShare"), cluster, 1e9, None)
    told = view.gangs[0].status.explanation
    assert told is not None
    assert told["message"] == "queue a is entitled to 12 of 16 GPUs and uses 0; 16 more would be 16"
    assert told["expectedStart"] == {
        "at": "2001-09-09T02:46:40Z",
        "basis": "when default/small ends on n0 (its run time)",
    }
    assert {"effect": "would start", "change": "when default/small ends"} in told["remedies"]


@pytest.mark.parametrize(
    ("hard", "there", "expected"),
    [
        ({"pods": "2"}, 2, ["2 of its pods cannot be created: ResourceQuota few has too little pods left"]),
        ({"pods": "3"}, 2, []),
        ({"pods": "2"}, 4, []),
        ({"requests.cpu": "3"}, 3, []),
        ({"services": "0"}, 2, []),
    ],
)
def test_a_sweep_says_which_quota_keeps_its_pods_from_being_created(
    hard: dict[str, str], there: int, expected: list[str]
) -> None:
    cluster = objects(
        job("sweep", 4, 1, gang=False),
        *(pod(f"sweep-{i}", 1, node="n0") for i in range(there)),
        resource_quota("few", hard),
    ).items.values()
    (resource,) = (each for each in cluster if isinstance(each, Job))
    (quota,) = (each for each in cluster if isinstance(each, ResourceQuota))
    pods = tuple(each for each in cluster if isinstance(each, Pod))
    view = JobView(kinds.JOB, resource, State.RUNNING, 4, there, 0, 0, pods=pods)
    told = why.short_of_quota(view, [quota])
    assert [line.removesuffix(" for one more") for line in told] == expected

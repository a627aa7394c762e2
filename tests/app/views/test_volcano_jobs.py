"""Jobs of Volcano as people see them: a Job, its pods, and the PodGroup that its controller has made."""

import msgspec
import pytest

from muster.api import groups, kinds
from muster.api.base import Object, ObjectMeta, OwnerReference
from muster.api.core_v1 import Pod, PodSpec, PodStatus
from muster.api.muster_v1alpha1 import Gang, GangSpec, GangStatus, Reason, Source
from muster.api.volcano_v1alpha1 import VolcanoJob
from muster.api.volcano_v1beta1 import PodGroup
from muster.app.views.find import called, matching
from muster.app.views.job import JobView, State
from muster.app.views.jobs import alone, views
from muster.app.views.objects import Objects
from muster.app.views.summary import summary
from tests.app.objects import T0
from tests.app.views.test_jobs import job as job_of_kubernetes

OWNER = OwnerReference(kinds.VOLCANO_JOB.api_version, "Job", "j", "uid-j", controller=True)
GROUP = "j-uid-j"


def volcano_job(phase: str = "Pending", **status: object) -> VolcanoJob:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    body: Object = {
        "metadata": {"name": "j", "namespace": "default", "uid": "uid-j", "creationTimestamp": T0},
        "spec": {
            "tasks": [
                {"name": "w", "replicas": 3, "template": {"spec": {"containers": [container]}}},
            ]
        },
        "status": {"state": {"phase": phase}, **status},
    }
    return msgspec.convert(body, VolcanoJob)


def group(**spec: object) -> PodGroup:
    meta = ObjectMeta(name=GROUP, namespace="default", uid="uid-g", owner_references=[OWNER])
    return PodGroup(metadata=meta)


def pod(number: int, phase: str = "Pending", node: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=f"j-w-{number}",
            namespace="default",
            uid=f"p{number}",
            owner_references=[OWNER],
            annotations={"scheduling.k8s.io/group-name": GROUP},
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
    )


def gang(reason: Reason | None = None) -> Gang:
    source = Source(groups.VOLCANO.kind.api_version, "PodGroup", GROUP, "uid-g")
    return Gang(
        metadata=ObjectMeta(name=f"volcano-{GROUP}", namespace="default"),
        spec=GangSpec(source=source, queue="ml"),
        status=GangStatus(phase="Waiting" if reason else "", reason=reason),
    )


def only(*pods: Pod, job: VolcanoJob | None = None, gangs: tuple[Gang, ...] = ()) -> JobView:
    named = [(groups.VOLCANO.kind, group())]
    (view,) = views(Objects((), (), named, pods, gangs, volcano_jobs=[job or volcano_job()]))
    return view


def test_a_job_with_its_podgroup_and_pods_is_one_job_that_waits_for_what_its_gang_waits_for() -> None:
    reason = Reason(code="InsufficientCapacity", message="no room")
    view = only(*map(pod, range(3)), gangs=(gang(reason),))
    assert (view.name, view.kind, view.state) == ("j", kinds.VOLCANO_JOB, State.WAITING)
    assert (view.reason, view.wanted, view.queue) == (("InsufficientCapacity", "no room"), 3, "ml")
    assert view.marked == ((groups.VOLCANO.kind, group()),)
    assert summary(view)["gpus"] == 6


def test_a_job_runs_with_its_pods() -> None:
    view = only(*(pod(number, "Running", "n") for number in range(3)), gangs=(gang(),))
    assert (view.state, view.running) == (State.RUNNING, 3)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("Completed", State.SUCCEEDED),
        ("Failed", State.FAILED),
        ("Terminated", State.FAILED),
        ("Aborted", State.FAILED),
        ("Restarting", State.WAITING),
        ("", State.WAITING),
    ],
)
def test_the_phase_of_a_job_that_has_ended_counts(phase: str, state: State) -> None:
    view = only(job=volcano_job(phase, succeeded=2, failed=1, retryCount=4))
    assert (view.state, view.succeeded, view.failed, view.restarts) == (state, 2, 1, 4)
    assert view.reason == ((phase, "") if state is State.FAILED else None)


def test_a_job_alone_is_a_job() -> None:
    view = alone(kinds.VOLCANO_JOB, volcano_job())
    assert (view.state, view.marked) == (State.WAITING, ())


def test_jobs_of_one_name_are_told_apart_by_their_kinds() -> None:
    there = views(Objects(jobs=[job_of_kubernetes("j")], volcano_jobs=[volcano_job()]))
    assert {called(view, there) for view in there} == {"job/j", "vcjob/j"}
    assert [view.kind for view in matching("vcjob/j", there).found] == [kinds.VOLCANO_JOB]
    assert [view.kind for view in matching("job/j", there).found] == [kinds.JOB]

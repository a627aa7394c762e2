"""Which pods, Jobs and BatchJobs belong to which job, whatever they say of themselves."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest

from muster.api import groups, kinds
from muster.api.base import Condition, Kind, Object, ObjectMeta, OwnerReference
from muster.api.batch_v1 import Job, JobSpec, JobStatus
from muster.api.core_v1 import Pod, PodSpec, PodStatus
from muster.api.fields import convert
from muster.api.jobset_v1alpha2 import JobSet, JobSetSpec, ReplicatedJob
from muster.api.muster_v1alpha1 import BatchJob, Gang, GangSpec, Source
from muster.api.scheduling import PodGroup, PodGroupSpec
from muster.app.snapshot import Snapshot
from muster.app.views import find, queues, why
from muster.app.views.job import State
from muster.app.views.jobs import views
from muster.app.views.objects import Objects, fetch
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.client import Page
from muster.kube.errors import Forbidden
from muster.runtime.mirror import WATCHED

JOB: tuple[str, str] = ("batch/v1", "Job")
JOBSET = (kinds.JOBSET.api_version, "JobSet")
X = kinds.POD_GROUP_X.group
GANG = groups.POD_GROUP.label


def meta(
    name: str,
    uid: str = "",
    *owner: str,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> ObjectMeta:
    """`owner`: apiVersion, kind, name and uid of the controller."""
    owners = []
    if owner:
        version, kind, of, which = owner
        owners = [OwnerReference(version, kind, of, which, controller=True)]
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        owner_references=owners,
        labels=labels or {},
        annotations=annotations or {},
    )


def running(about: ObjectMeta) -> Pod:
    return Pod(metadata=about, spec=PodSpec(node_name="n"), status=PodStatus("Running"))


#: pods, with the running pods of each job that is listed: the Job j, its PodGroup g, and others
PODS: dict[str, tuple[Pod, dict[str, int]]] = {
    "its Job's": (running(meta("p", "", *JOB, "j", "new")), {"j": 1}),
    "that of an older Job of the name": (running(meta("p", "", *JOB, "j", "old")), {}),
    "that of a Job without its name": (running(meta("p", "", *JOB, "other", "new")), {"j": 1}),
    "one of another kind with the Job's uid": (
        running(meta("p", "", "apps/v1", "ReplicaSet", "j", "new")),
        {},
    ),
    "one of another group's Job": (running(meta("p", "", "example.com/v1", "Job", "j", "new")), {}),
    "one of a later version of Jobs": (running(meta("p", "", "batch/v2", "Job", "j", "new")), {"j": 1}),
    "one of another namespace": (running(meta("p", "", *JOB, "j", "new", namespace="evil")), {}),
    "one that is owned and not controlled": (
        running(
            ObjectMeta("p", namespace="default", uid="p", owner_references=[OwnerReference(*JOB, "j", "new")])
        ),
        {"p": 1},
    ),
    "the group's": (running(meta("p", labels={GANG: "g"})), {"g": 1}),
    "the group's, made by the Job": (
        running(meta("p", "", *JOB, "j", "new", labels={GANG: "g"})),
        {"j": 1, "g": 1},
    ),
    "the group's, made by an operator": (
        running(meta("p", "", "kubeflow.org/v1", "PyTorchJob", "t", "u", labels={GANG: "g"})),
        {"g": 1},
    ),
    "one of a group of that name elsewhere": (
        running(meta("p", namespace="evil", labels={GANG: "g"})),
        {"evil/g": 1},
    ),
    "one whose owner's uid is written as a group": (running(meta("p", "", *JOB, "j", f"{X}/default/g")), {}),
    "one whose owner's uid is nearly a group": (running(meta("p", "", *JOB, "j", f"{X}/g")), {}),
    "one whose group is written as a path": (
        running(meta("p", labels={GANG: "default/g"})),
        {"default/g": 1},
    ),
}


@pytest.mark.parametrize("case", PODS)
def test_whose_a_pod_is(case: str) -> None:
    pod, expected = PODS[case]
    group = PodGroup(metadata=meta("g"), spec=PodGroupSpec(min_member=1))
    objects = Objects(
        jobs=[Job(metadata=meta("j", "new"))], pod_groups=[(kinds.POD_GROUP_X, group)], pods=[pod]
    )
    found = {
        view.name if view.namespace == "default" else f"{view.namespace}/{view.name}": view.running
        for view in views(objects)
    }
    assert found == {"j": 0, "g": 0} | expected


#: Jobs, with the names of the jobs that are listed beside the JobSet js
JOBS: dict[str, tuple[Job, list[str]]] = {
    "its JobSet's": (Job(metadata=meta("j", "", *JOBSET, "js", "new")), []),
    "that of a JobSet which is deleted": (Job(metadata=meta("j", "", *JOBSET, "js", "old")), []),
    "one of another namespace": (Job(metadata=meta("j", "", *JOBSET, "js", "new", namespace="evil")), []),
    "one of another kind with its uid": (Job(metadata=meta("j", "", "v1", "ConfigMap", "js", "new")), ["j"]),
    "one of a CronJob": (Job(metadata=meta("j", "", "batch/v1", "CronJob", "c", "c")), ["j"]),
}


@pytest.mark.parametrize("case", JOBS)
def test_whose_a_job_is(case: str) -> None:
    job, expected = JOBS[case]
    found = views(
        Objects(
            [JobSet(metadata=meta("js", "new"))],
            [job],
            pods=[
                running(
                    meta("p", "", *JOB, job.metadata.name, job.metadata.uid, namespace=job.metadata.namespace)
                )
            ],
        )
    )
    assert sorted(view.name for view in found) == sorted(["js", *expected])
    (jobset,) = (view for view in found if view.name == "js")
    assert jobset.running == (case == "its JobSet's")


@pytest.mark.parametrize(
    ("owner", "namespace", "listed"),
    [
        (("b", "uid-b"), "default", ["b"]),
        (("b", "old"), "default", ["b", "b"]),
        (("b", "uid-b"), "evil", ["b", "b"]),
    ],
)
def test_a_batch_job_is_its_run_only_if_it_made_it(
    owner: tuple[str, str], namespace: str, listed: list[str]
) -> None:
    about = meta("b", "run", kinds.BATCH_JOB.api_version, "BatchJob", *owner, namespace=namespace)
    objects = Objects([JobSet(metadata=about)], batch_jobs=[BatchJob(metadata=meta("b"))])
    assert [view.name for view in views(objects)] == listed


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], State.RUNNING),
        ([Condition("Complete", "True")], State.SUCCEEDED),
        ([Condition("Failed", "True")], State.FAILED),
    ],
)
def test_a_group_ends_with_the_job_that_makes_its_pods(conditions: list[Condition], state: State) -> None:
    """A pod that failed may be replaced, and one that succeeded need not be the last."""
    job = Job(metadata=meta("j"), status=JobStatus(conditions))
    owner = (*JOB, "j", "uid-j")
    pods = [
        Pod(
            metadata=meta(name, "", *owner, labels={GANG: "g"}),
            spec=PodSpec(node_name="n"),
            status=PodStatus(phase),
        )
        for name, phase in (("a", "Failed"), ("b", "Succeeded"))
    ]
    groups = [(kinds.POD_GROUP_X, PodGroup(metadata=meta("g")))]
    assert [view.state for view in views(Objects(jobs=[job], pod_groups=groups, pods=pods))] == [state, state]


class Narrow(LocalClient):
    """A client that may not list some kinds."""

    def __init__(self, registry: Registry, *denied: Kind[Any]) -> None:
        super().__init__(registry)
        self._denied = denied

    async def list(self, kind: Kind[Any], *args: Any, **options: Any) -> Page[Any]:
        if kind in self._denied:
            raise Forbidden(f"{kind.plural} is forbidden")
        return await super().list(kind, *args, **options)


POD: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_who_may_not_read_batch_jobs_sees_the_others() -> None:
    with closing(Store(":memory:")) as store:
        client = Narrow(Registry(store), kinds.BATCH_JOB)
        await client.create(kinds.BATCH_JOB, "default", {"metadata": {"name": "b"}, "spec": {}})
        await client.create(kinds.POD, "default", POD)
        assert [view.name for view in views(await fetch(client))] == ["p"]
        (batch_job, _) = views(await fetch(LocalClient(client.registry)))
        assert batch_job.name == "b"


async def test_who_may_not_read_kinds_of_other_schedulers_is_answered_as_if_there_were_none() -> None:
    """An API server checks rights first: it forbids a kind also where no such definition exists."""
    with closing(Store(":memory:")) as store:
        full = LocalClient(Registry(store))
        narrow = Narrow(full.registry, *kinds.FOREIGN)
        await full.create(kinds.POD, "default", POD)
        snapshot = await Snapshot.observe(full, now=0.0)
        [gang] = snapshot.waiting({pod.metadata.uid for pod in (await fetch(full)).pods})
        told = snapshot.why(gang)
        assert told is not None
        unscheduled = {
            "type": "PodScheduled",
            "status": "False",
            "reason": told.code,
            "message": told.message,
        }
        await full.patch(
            *(kinds.POD, "default", "p", {"status": {"conditions": [unscheduled]}}), subresource="status"
        )
        there, all_of_it = await fetch(narrow), await fetch(full)
        assert there == all_of_it
        [view] = views(there)
        answer = await why.asked(narrow, there, view, 0.0, None)
        assert answer[1] is not None
        assert answer == await why.asked(full, all_of_it, view, 0.0, None)
        shown = [[*map(queues.summary, await queues.fetch(client, None))] for client in (narrow, full)]
        assert shown[0] == shown[1]


@pytest.mark.parametrize("denied", [kinds.POD, kinds.JOB, kinds.GANG])
async def test_who_may_not_read_what_jobs_consist_of_is_told_so(denied: Kind[Any]) -> None:
    with closing(Store(":memory:")) as store:
        client = Narrow(Registry(store), denied, *kinds.FOREIGN)
        with pytest.raises(Forbidden, match=f"^{denied.plural} is forbidden$"):
            await fetch(client)
        if denied in WATCHED:
            with pytest.raises(Forbidden, match=f"^{denied.plural} is forbidden$"):
                await queues.fetch(client, None)


@pytest.mark.parametrize(
    ("jobs", "pods", "kinds_"),
    [
        ((("g",),), (), ["JobSet"]),  # as a batch job with a minimum of pods is compiled
        ((("g", "g"),), (0,), ["JobSet"]),
        ((("g", ""),), (0,), ["JobSet", "PodGroup"]),
        ((("g", "absent"),), (), ["JobSet", "PodGroup"]),
        ((("h",),), (), ["JobSet", "PodGroup"]),
        ((("g",), ("g",)), (), ["JobSet", "JobSet", "PodGroup"]),
        ((("g",), ("h",)), (0,), ["JobSet", "JobSet"]),
        ((("g",),), (0, None), ["JobSet", "PodGroup"]),  # a pod that the job has not made
        ((("g",), ("h",)), (1,), ["JobSet", "JobSet", "PodGroup"]),
    ],
)
def test_a_job_is_one_with_the_pod_group_that_its_pods_alone_name(
    jobs: tuple[tuple[str, ...], ...], pods: tuple[int | None, ...], kinds_: list[str]
) -> None:
    """`jobs`: what the templates of each name. `pods`: the jobs whose pods are in the group."""

    def labels(group: str) -> dict[str, str]:
        return {GANG: group} if group else {}

    def jobset(number: int, named: tuple[str, ...]) -> JobSet:
        templates = [{"spec": {"template": {"metadata": {"labels": labels(group)}}}} for group in named]
        spec = JobSetSpec(replicated_jobs=[ReplicatedJob("w", template=each) for each in templates])
        return JobSet(metadata=meta(f"js{number}"), spec=spec)

    def pod(number: int, of: int | None) -> Pod:
        by = () if of is None else (*JOB, f"js{of}-w", f"uid-js{of}-w")
        return running(meta(f"p{number}", "", *by, labels={GANG: "g"}))

    group = PodGroup(metadata=meta("g"), spec=PodGroupSpec(min_member=1))
    source = Source(kinds.POD_GROUP_X.api_version, "PodGroup", "g", "uid-g")
    gang = Gang(metadata=meta("gang"), spec=GangSpec(queue="team", source=source))
    objects = Objects(
        jobsets=[jobset(*each) for each in enumerate(jobs)],
        jobs=[
            Job(metadata=meta(f"js{each}-w", "", *JOBSET, f"js{each}", f"uid-js{each}"))
            for each, _ in enumerate(jobs)
        ],
        pods=[pod(*each) for each in enumerate(pods)],
        pod_groups=[(kinds.POD_GROUP_X, group)],
        gangs=[gang],
    )
    found = views(objects)
    assert sorted(view.kind.kind for view in found) == kinds_
    (waits,) = (view for view in found if view.gangs)
    assert waits.queue == "team"
    one = "PodGroup" not in kinds_
    assert waits.marked == (((kinds.POD_GROUP_X, group),) if one else ())
    if one:
        assert find.matching("podgroup/g", found).newest == find.matching("g", found).newest == waits


@pytest.mark.parametrize(
    ("others", "one"), [((), True), (("g",), False), (("h",), False), (("g", "h"), False), (("i",), True)]
)
def test_a_job_is_one_with_the_pod_groups_that_its_templates_alone_name(
    others: tuple[str, ...], one: bool
) -> None:
    """`others`: what the templates of another job name."""

    def jobset(name: str, named: Iterable[str]) -> JobSet:
        templates = [{"spec": {"template": {"metadata": {"labels": {GANG: group}}}}} for group in named]
        spec = JobSetSpec(
            replicated_jobs=[ReplicatedJob(f"{i}", template=t) for i, t in enumerate(templates)]
        )
        return JobSet(metadata=meta(name), spec=spec)

    made = [(kinds.POD_GROUP_X, PodGroup(metadata=meta(name))) for name in "gh"]
    gangs = [
        Gang(
            metadata=meta(f"gang-{name}"),
            spec=GangSpec(source=Source(kinds.POD_GROUP_X.api_version, "PodGroup", name, f"uid-{name}")),
        )
        for name in "gh"
    ]
    found = views(
        Objects(jobsets=[jobset("own", "gh"), jobset("other", others)], pod_groups=made, gangs=gangs)
    )
    own = next(view for view in found if view.name == "own")
    assert (own.marked, own.gangs) == ((tuple(made), tuple(gangs)) if one else ((), ()))
    if one:
        assert len(found) == 2
        assert find.matching("g", found).newest == find.matching("podgroup/h", found).newest == own


def test_a_pod_group_of_another_job_stays_that_jobs() -> None:
    """Also before that one has pods: a job whose pods name it must not be cancelled together with it."""
    own = Job(metadata=meta("own"))
    group = PodGroup(metadata=meta("g", "", *JOB, "own", "uid-own"), spec=PodGroupSpec(min_member=1))
    spec = convert({"template": {"metadata": {"labels": {GANG: "g"}}}}, JobSpec)
    found = views(
        Objects(jobs=[own, Job(metadata=meta("other"), spec=spec)], pod_groups=[(kinds.POD_GROUP_X, group)])
    )
    marked = {view.name: view.marked for view in found}
    assert marked == {"own": ((kinds.POD_GROUP_X, group),), "other": ()}

"""The JobSet of a Job of Volcano: its gang, its pods, its order."""

import pytest

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.api.fields import Severity
from muster.workloads.check import check
from muster.workloads.jobfile import Options
from tests.workloads.volcano.jobs import job, jobset, loaded, of, pod_of, refused, spec_of, task

QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "ml"},
    "spec": {"weight": 1},
}


def test_each_task_is_a_replicated_job_with_a_pod_per_replica() -> None:
    made = jobset(job(task("master"), task("worker", 4), ttlSecondsAfterFinished=60))
    assert [each["name"] for each in made["spec"]["replicatedJobs"]] == ["master", "worker"]
    spec = spec_of(made, 1)
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert made["spec"]["ttlSecondsAfterFinished"] == 60
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("j", "default")


@pytest.mark.parametrize("minimum", [{}, {"minAvailable": 5}])
def test_a_job_that_needs_all_of_its_pods_is_a_gang(minimum: Object) -> None:
    file = loaded(job(task("master"), task("worker", 4), **minimum))
    assert file.gang is True
    assert file.primary[0]["metadata"]["labels"][names.GANG] == "true"
    assert [each["kind"] for each in file.objects] == ["JobSet"]


def test_a_job_that_needs_fewer_has_a_podgroup_with_that_minimum() -> None:
    file = loaded(job(task("worker", 4), minAvailable=2, queue="ml"))
    group = of(file, "PodGroup")
    assert (group["spec"], groups.row_of(group)) == ({"minMember": 2}, groups.CREATED)
    assert group["metadata"]["labels"] == {names.QUEUE: "ml"}
    template = pod_of(file.primary[0])
    assert groups.named_in(template) == (groups.CREATED, "j", False)
    assert file.gang is True


def test_minima_of_tasks_are_those_of_a_podgroup_of_volcano() -> None:
    file = loaded(
        job(task("master"), task("worker", 4, minAvailable=2), minAvailable=3, priorityClassName="p")
    )
    group = of(file, "PodGroup")
    assert groups.row_of(group) is groups.VOLCANO
    assert group["spec"] == {
        "minMember": 3,
        "minTaskMember": {"master": 1, "worker": 2},
        "priorityClassName": "p",
    }
    for number, name in enumerate(("master", "worker")):
        template = pod_of(file.primary[0], number)
        assert groups.named_in(template) == (groups.VOLCANO, "j", False)
        assert template["metadata"]["annotations"]["volcano.sh/task-spec"] == name


def test_a_job_of_which_no_pod_is_needed_starts_each_alone() -> None:
    file = loaded(job(task("worker", 4, minAvailable=0)))
    assert file.gang is False
    assert [each["kind"] for each in file.objects] == ["JobSet"]


@pytest.mark.parametrize(("mode", "gang"), [("gang", "true"), ("independent", "false")])
def test_the_command_line_counts_more_than_the_minimum(mode: str, gang: str) -> None:
    file = loaded(job(task("w", 4), minAvailable=2), options=Options(suffix="x", mode=mode))  # type: ignore[arg-type]
    assert [each["kind"] for each in file.objects] == ["JobSet"]
    assert file.primary[0]["metadata"]["labels"][names.GANG] == gang


def test_the_marks_of_a_job_are_those_of_what_it_becomes() -> None:
    document = job(task("w", 2), minAvailable=1)
    document["metadata"] |= {
        "labels": {"team": "a"},
        "annotations": {
            "volcano.sh/preemptable": "false",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    }
    file = loaded(document)
    for each in file.objects:
        assert each["metadata"]["labels"]["team"] == "a"
        assert each["metadata"]["annotations"] == {"volcano.sh/preemptable": "false"}
    assert pod_of(file.primary[0])["metadata"]["annotations"]["volcano.sh/preemptable"] == "false"


def test_the_queue_and_the_priority_are_obeyed() -> None:
    made = jobset(job(task("w"), queue="ml", priorityClassName="high"), QUEUE)
    assert made["metadata"]["labels"][names.QUEUE] == "ml"
    assert pod_of(made)["spec"]["priorityClassName"] == "high"


@pytest.mark.parametrize(
    ("said", "own", "made"),
    [
        ("", "", names.SCHEDULER),
        ("volcano", "", names.SCHEDULER),
        ("volcano", "volcano", names.SCHEDULER),
        ("muster", "", "muster"),
        ("other", "", "other"),
        ("volcano", "other", "other"),
    ],
)
def test_pods_of_volcanos_scheduler_are_musters(said: str, own: str, made: str) -> None:
    spec = {"schedulerName": own} if own else {}
    found = jobset(job(task("w", spec=spec), **({"schedulerName": said} if said else {})))
    assert pod_of(found)["spec"]["schedulerName"] == made


def test_pods_of_volcanos_scheduler_get_the_name_that_muster_has_there() -> None:
    found = jobset(job(task("w"), schedulerName="volcano"), options=Options(suffix="x", scheduler="batch"))
    assert pod_of(found)["spec"]["schedulerName"] == "batch"


def test_volumes_are_mounted_everywhere() -> None:
    document = job(
        task("w", spec={"initContainers": [{"name": "i", "image": "i", "command": ["true"]}]}),
        volumes=[{"mountPath": "/data", "volumeClaimName": "data"}],
    )
    made = jobset(document, options=Options(suffix="x", volumes={"data": "/tmp"}))
    spec = pod_of(made)["spec"]
    assert spec["volumes"] == [{"name": "volcano-0", "hostPath": {"path": "/tmp", "type": "Directory"}}]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [{"name": "volcano-0", "mountPath": "/data"}]
    (error,) = refused(document)
    assert "--volume data=DIR" in error.message


def test_tasks_that_depend_on_others_come_after_them() -> None:
    made = jobset(job(task("worker", 2, dependsOn={"name": ["master"]}), task("master")))
    first, second = made["spec"]["replicatedJobs"]
    assert (first["name"], second["dependsOn"]) == ("master", [{"name": "master", "status": "Ready"}])


def test_a_minimum_that_the_first_tasks_do_not_have_is_that_of_no_podgroup() -> None:
    tasks = [task("master"), task("worker", 4, dependsOn={"name": ["master"]})]
    assert [each["kind"] for each in loaded(job(*tasks, minAvailable=3)).objects] == ["JobSet"]
    assert [each["kind"] for each in loaded(job(*tasks, minAvailable=1)).objects] == ["PodGroup", "JobSet"]


def test_errors_are_told_at_the_field_that_the_author_wrote() -> None:
    document = job(task("w", spec={"containers": [{"name": "c", "image": "i"}]}), task("x" * 60))
    fields = {each.field for each in refused(document)}
    assert fields == {"spec.tasks[0].template.spec.containers[0].command", "spec.tasks[1].name"}


def test_objects_of_one_name_are_refused() -> None:
    other = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "j-svc"},
    }
    (error,) = refused(job(task("w"), plugins={"svc": []}), other)
    assert (error.field, "ConfigMap j-svc" in error.message) == ("metadata.name", True)


def test_a_job_may_be_beside_other_objects() -> None:
    file = loaded(QUEUE, job(task("w")))
    assert [each["kind"] for each in file.objects] == ["Queue", "JobSet"]


def test_check_advises_in_volcanos_words() -> None:
    findings = check(loaded(job(task("w", 2, spec={"restartPolicy": "OnFailure"}))))
    (told,) = (each for each in findings if "retried alone" in each.message)
    assert "{event: PodFailed, action: RestartJob}" in told.message
    assert told.field == "spec.tasks[0].template.spec.restartPolicy"


def test_a_cluster_with_volcanos_controllers_gets_the_job_as_it_is() -> None:
    options = Options(suffix="x", local=False, volcano=True)
    document = job(task("w", 2), minAvailable=2, plugins={"mpi": []}, networkTopology={"mode": "hard"})
    file = loaded(document, options=options)
    (made,) = file.objects
    assert made == {**document, "metadata": {"name": "j", "namespace": "default"}}
    assert (file.gang, file.notes) == (True, ())


def test_the_minimum_of_success_is_told() -> None:
    (note,) = loaded(job(task("w", 4), minAvailable=2)).notes
    assert (note.field, note.severity) == ("spec.minAvailable", Severity.NOTE)

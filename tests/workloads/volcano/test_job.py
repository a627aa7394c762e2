"""What of a Job of Volcano is read, and what is refused by its field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.fields import Severity
from muster.workloads.volcano import read
from tests.workloads.volcano.jobs import job, jobset, loaded, policy, refused, task

CIRCLE = [
    task("a", dependsOn={"name": ["b"]}),
    task("b", dependsOn={"name": ["c"]}),
    task("c", dependsOn={"name": ["b"]}),
]


@pytest.mark.parametrize(
    ("document", "field", "told"),
    [
        (job(), "spec.tasks", "at least one task"),
        (job(*(task(f"t{n}") for n in range(300))), "spec.tasks", "300 tasks; a Job has at most 256"),
        (job(task("w", 10**6)), "spec.tasks", "1,000,000 pods"),
        (job(task("w", 2**31 - 1), task("x", 2**31 - 1)), "spec.tasks", "4,294,967,294 pods"),
        (job(task("w", 2**31)), "spec.tasks[0].replicas", "too large"),
        (job(task("w", -1)), "spec.tasks[0].replicas", "the least is 0"),
        (job(task("w", 2, minAvailable=3)), "spec.tasks[0].minAvailable", "a number from 0 to 2"),
        (job(task("w", 2, minAvailable=-1)), "spec.tasks[0].minAvailable", "a number from 0 to 2"),
        (job(task("w", 2), minAvailable=3), "spec.minAvailable", "the tasks have 2 pods"),
        (job(task("w"), minAvailable=-1), "spec.minAvailable", "the least is 0"),
        (job(task("w"), maxRetry=-1), "spec.maxRetry", "the least is 0"),
        (job(task("w"), maxRetry=2**31), "spec.maxRetry", "too large"),
        (job(task("w", maxRetry=-2)), "spec.tasks[0].maxRetry", "the least is -1"),
        (job(task("w"), ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", "the least is 0"),
        (job(task("w"), minSuccess=0), "spec.minSuccess", "from 1 to 1"),
        (job(task("w"), task("w")), "spec.tasks[1].name", "another task"),
        (job(task("W_1")), "spec.tasks[0].name", "cannot name a task"),
        (job(task("w" * 300)), "spec.tasks[0].name", "at most 63"),
        (job(task("w", dependsOn={"name": ["v"]})), "spec.tasks[0].dependsOn.name[0]", "no task 'v'"),
        (job(*CIRCLE), "spec.tasks[1].dependsOn", "circular: b → c → b"),
        (job(task("a", dependsOn={"name": ["a"]})), "spec.tasks[0].dependsOn", "circular: a → a"),
        (
            job(task("a"), task("b"), task("c", dependsOn={"name": ["a", "b"], "iteration": "any"})),
            "spec.tasks[2].dependsOn.iteration",
            "waits for all",
        ),
        (
            job(task("w", partitionPolicy={"totalPartitions": 1})),
            "spec.tasks[0].partitionPolicy",
            "a Job for each partition",
        ),
        (job(task("w"), networkTopology={"mode": "hard"}), "spec.networkTopology", "needs HyperNodes"),
        (job(task("w"), networkTopology={}), "spec.networkTopology", "needs HyperNodes"),
        (
            job(task("w"), volumes=[{"mountPath": "/d", "volumeClaim": {}}]),
            "spec.volumes[0].volumeClaim",
            "volumeClaimName: NAME",
        ),
        (job(task("w"), volumes=[{"mountPath": "/d"}]), "spec.volumes[0].volumeClaimName", "is missing"),
        (job(task("w"), volumes=[{"volumeClaimName": "d"}]), "spec.volumes[0].mountPath", "is missing"),
    ],
)
def test_what_cannot_run_is_refused_by_its_field(document: Object, field: str, told: str) -> None:
    errors = [each for each in refused(document) if each.severity is Severity.ERROR]
    assert (errors[0].field, told in errors[0].message) == (field, True), errors


@pytest.mark.parametrize("name", ["x" * 300, "x" * 60, "J_1", ""])
def test_names_that_no_jobset_can_have_are_refused(name: str) -> None:
    document = job(task("w"))
    document["metadata"]["name"] = name
    assert refused(document)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (job(task("w"), networkTopology={"mode": "soft"}), "spec.networkTopology"),
        (job(task("w"), runningEstimate="1h"), "spec.runningEstimate"),
        (job(task("w", topologyPolicy="restricted")), "spec.tasks[0].topologyPolicy"),
        (job(task("w", spec={"restartPolicy": "Always"})), "spec.tasks[0].template.spec.restartPolicy"),
        (job(task("w", spec={"hostname": "h"})), "spec.tasks[0].template.spec.hostname"),
        (job(task("w"), plugins={"ssh": []}), "spec.plugins.ssh"),
        (job(task("w", minAvailabel=1)), "spec.tasks[0].minAvailabel"),
    ],
)
def test_what_is_not_obeyed_is_a_warning(document: Object, field: str) -> None:
    warnings = [each.field for each in loaded(document).notes if each.severity is Severity.WARNING]
    assert warnings == [field]


def test_a_missing_restart_policy_is_told_like_always() -> None:
    document = job(task("w"))
    del document["spec"]["tasks"][0]["template"]["spec"]["restartPolicy"]
    (note,) = loaded(document).notes
    assert note.severity is Severity.WARNING
    assert "Always" in note.message


def test_tasks_without_a_name_are_numbered() -> None:
    tasks = [task(""), task("")]
    made = jobset(job(*tasks))
    assert [each["name"] for each in made["spec"]["replicatedJobs"]] == ["default0", "default1"]


def test_a_kind_of_volcano_that_is_not_read_is_refused_as_before() -> None:
    document = job(task("w")) | {"kind": "CronJob"}
    assert "Volcano" in refused(document)[0].message


NUMBERS = st.integers(-3, 2**33)


@given(
    tasks=st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["a", "b", "", "-"]), "replicas": NUMBERS},
            optional={
                "minAvailable": NUMBERS,
                "maxRetry": NUMBERS,
                "policies": st.lists(
                    st.builds(
                        policy, st.sampled_from(["*", "PodFailed", "X"]), st.sampled_from(["RestartJob", ""])
                    )
                ),
                "dependsOn": st.fixed_dictionaries({"name": st.lists(st.sampled_from(["a", "b", "z"]))}),
            },
        ),
        max_size=4,
    ),
    spec=st.fixed_dictionaries(
        {}, optional={"minAvailable": NUMBERS, "maxRetry": NUMBERS, "minSuccess": NUMBERS}
    ),
)
def test_any_job_is_compiled_or_refused_with_a_place(tasks: list[Object], spec: dict[str, Any]) -> None:
    whole = [{**each, "template": task("t")["template"]} for each in tasks]
    try:
        made = jobset(job(*whole, **spec))
    except AssertionError:
        raise
    except ValueError:
        assert all(each.line for each in refused(job(*whole, **spec)))
    else:
        assert len(made["spec"]["replicatedJobs"]) == len(tasks)


def test_reading_needs_no_file() -> None:
    found: list[str] = []
    made = read(
        job(task("a", 2), task("b", 3, minAvailable=1)) | {"metadata": {"name": "j"}},
        lambda path, message, severity: found.append(message),
    )
    assert made is not None
    assert (made.minimum, made.minima, made.pods, found) == (3, {"a": 2, "b": 1}, 5, [])


def test_minima_that_exceed_that_of_the_job_do_not_count() -> None:
    made = read(job(task("a", 2), task("b", 3), minAvailable=4), lambda *_: None)
    assert made is not None
    assert made.minima == {}

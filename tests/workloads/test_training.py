"""Training jobs find their coordinator and their rank without a line of user code."""

import pytest
import yaml

from muster.api.base import Object
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import load

RANK = "jobset.sigs.k8s.io/job-global-index"
INDEX = "batch.kubernetes.io/job-completion-index"


def manifest(types: Object, training: str = "PyTorch") -> str:
    resources = {"cpus": 1, "memory": 1, "accelerators": {"gpu": {"count": 2}}}
    spec = {
        "operator": "jobset",
        "command": "python3 train.py",
        "scheduling": {"mode": "gang", "training": training},
        "types": {name: {"resources": resources, **each} for name, each in types.items()},
    }
    return yaml.safe_dump({"name": "train", "spec": spec}, sort_keys=False)


def jobset(groups: Object, training: str = "PyTorch", env: list[Object] | None = None) -> str:
    container = {"name": "main", "image": "x", "command": ["true"], "env": env or []}
    replicated = [
        {
            "name": name,
            "replicas": replicas,
            "template": {
                "spec": {
                    "parallelism": pods,
                    "completions": pods,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                }
            },
        }
        for name, (replicas, pods) in groups.items()
    ]
    metadata = {"name": "train", "annotations": {"muster.dev/training": training}}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
    return yaml.safe_dump({**body, "spec": {"replicatedJobs": replicated}})


def env(text: str, group: int = 0) -> dict[str, str]:
    """The variables of a group's first container; of one from a label, the label."""
    [made] = [
        each for each in load("f.yaml", Options(suffix="0"), text=text).objects if each["kind"] == "JobSet"
    ]
    pod = made["spec"]["replicatedJobs"][group]["template"]["spec"]["template"]["spec"]
    found = {}
    for each in pod["containers"][0]["env"]:
        path = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        found[each["name"]] = each.get("value", path.removeprefix("metadata.labels['").removesuffix("']"))
    return found


def test_an_aichor_manifest_of_jobs_with_one_pod() -> None:
    text = manifest({"master": {"count": 1}, "worker": {"count": 3}})
    for group in (0, 1):
        found = env(text, group)
        assert found["MASTER_ADDR"] == "train-0-master-0-0.train-0"
        assert (found["NNODES"], found["NPROC_PER_NODE"], found["WORLD_SIZE"]) == ("4", "2", "8")
        assert found["RANK"] == RANK


GROUPS = {
    "a Job of several pods": ({"w": (1, 4)}, INDEX, "4"),
    "Jobs of one pod": ({"m": (1, 1), "w": (3, 1)}, RANK, "4"),
}


@pytest.mark.parametrize(("groups", "rank", "size"), GROUPS.values(), ids=GROUPS)
def test_a_jobset(groups: Object, rank: str, size: str) -> None:
    found = env(jobset(groups))
    assert (found["RANK"], found["WORLD_SIZE"], found["NPROC_PER_NODE"]) == (rank, size, "1")


def test_jax() -> None:
    found = env(jobset({"w": (4, 1)}, "Jax"))
    expected = {"JAX_COORDINATOR_ADDRESS": "train-w-0-0.train:29500", "JAX_NUM_PROCESSES": "4"}
    assert found == {**expected, "JAX_PROCESS_ID": RANK}


def test_the_authors_variables_stay() -> None:
    found = env(jobset({"w": (4, 1)}, env=[{"name": "MASTER_PORT", "value": "1"}]))
    assert found["MASTER_PORT"] == "1"


REFUSED = {
    "a rank that no label has": (jobset({"a": (2, 2)}), "no label has the rank"),
    "another framework": (jobset({"a": (1, 1)}, "Caffe"), "is 'Caffe'; write PyTorch, DeepSpeed or Jax"),
    "ranks that occur twice": (
        jobset({"a": (1, 2)}).replace("completions: 2", "completions: 4"),
        "occur twice",
    ),
    "in a manifest": (manifest({"w": {"count": 2}}, "Caffe"), "Caffe"),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED)
def test_a_training_environment_without_definite_ranks_is_refused(text: str, told: str) -> None:
    with pytest.raises(JobFileError, match=told):
        load("f.yaml", Options(suffix="0"), text=text)


def test_without_the_annotation_nothing_is_added() -> None:
    assert env(jobset({"w": (4, 1)}).replace("muster.dev/training: PyTorch", "a: b")) == {}

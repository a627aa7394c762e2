"""Training jobs find their coordinator and their rank without a line of user code."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.training import environment, port_of

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
        assert (found["NNODES"], found["NPROC_PER_NODE"], found["WORLD_SIZE"]) == ("4", "2", "4")
        assert found["RANK"] == RANK


GROUPS = {
    "a Job of several pods": ({"w": (1, 4)}, INDEX, "4"),
    "Jobs of one pod": ({"m": (1, 1), "w": (3, 1)}, RANK, "4"),
}


@pytest.mark.parametrize(("groups", "rank", "size"), GROUPS.values(), ids=GROUPS)
def test_a_jobset(groups: Object, rank: str, size: str) -> None:
    found = env(jobset(groups))
    assert (found["RANK"], found["WORLD_SIZE"], found["NPROC_PER_NODE"]) == (rank, size, "1")


def test_a_program_per_pod_and_torchrun_find_each_their_own_variables() -> None:
    """One process per pod joins as many as there are pods; torchrun overrides that for those it starts."""
    found = env(manifest({"worker": {"count": 4}}))
    host = "train-0-worker-0-0.train-0"
    assert {name: value for name, value in found.items() if name.startswith("PET_")} == {
        "PET_NNODES": "4",
        "PET_NODE_RANK": RANK,
        "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port_of(host)),
    }
    alone = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    assert [found[name] for name in alone] == ["4", RANK, "0", "1", host]


def test_init_containers_and_sidecars_get_it_too() -> None:
    document = yaml.safe_load(jobset({"w": (2, 1)}))
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 4}}
    side = {"name": "side", "image": "x", "command": ["true"], "restartPolicy": "Always"}
    pod["initContainers"] = [{"name": "preflight", "image": "x", "command": ["true"]}, side]
    [made] = load("f.yaml", Options(suffix="0"), text=yaml.safe_dump(document)).objects
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    main, preflight, sidecar = pod["containers"] + pod["initContainers"]
    assert main["env"] == preflight["env"] == sidecar["env"]
    assert {"name": "NPROC_PER_NODE", "value": "4"} in main["env"]


def trainers(text: str, named: str) -> str:
    document = yaml.safe_load(text)
    document["metadata"]["annotations"]["muster.dev/trainers"] = named
    return yaml.safe_dump(document)


JOB_INDEX = "jobset.sigs.k8s.io/job-index"
SOME = {
    "after the others": ({"tb": (1, 1), "w": (3, 1)}, "w", 1, JOB_INDEX, "3"),
    "before the others": ({"m": (1, 1), "w": (2, 1), "tb": (1, 1)}, "m, w", 1, RANK, "3"),
    "one Job of several pods": ({"tb": (2, 3), "w": (1, 4)}, "w", 1, INDEX, "4"),
}


@pytest.mark.parametrize(("groups", "named", "of", "rank", "size"), SOME.values(), ids=SOME)
def test_groups_that_do_not_train_are_not_ranked(
    groups: Object, named: str, of: int, rank: str, size: str
) -> None:
    text = trainers(jobset(groups), named)
    found = env(text, of)
    assert (found["RANK"], found["WORLD_SIZE"], found["PET_NNODES"]) == (rank, size, size)
    assert found["MASTER_ADDR"] == f"train-{named.partition(',')[0]}-0-0.train"
    for number, group in enumerate(groups):
        if group not in named:
            assert env(text, number) == {}


def test_a_manifest_names_the_types_that_train() -> None:
    document = yaml.safe_load(manifest({"worker": {"count": 2}, "board": {"count": 1}}))
    document["spec"]["scheduling"]["trainers"] = ["worker"]
    text = yaml.safe_dump(document, sort_keys=False)
    assert env(text)["WORLD_SIZE"] == "2"
    assert "RANK" not in env(text, 1)
    document["spec"]["scheduling"]["trainers"] = "worker"
    with pytest.raises(JobFileError, match="takes a list"):
        load("f.yaml", Options(suffix="0"), text=yaml.safe_dump(document))


def test_a_hint_does_not_take_musters_variables_for_the_authors() -> None:
    text = jobset({"w": (2, 1)})
    (note,) = load("f.yaml", Options(suffix="0"), text=text).notes
    assert "PyTorch joins all pods: if the pods wait" in note.message


@given(st.from_regex(r"[a-z0-9.-]{1,80}", fullmatch=True), st.sampled_from(["PyTorch", "DeepSpeed", "Jax"]))
def test_the_port_is_that_of_the_host_name_and_none_that_the_kernel_or_kubernetes_gives_away(
    host: str, framework: str
) -> None:
    once, again = (environment(framework, host, 2, 1, RANK) for _ in range(2))
    assert once == again
    values = {each["name"]: each.get("value", "") for each in once}
    named = {
        name: value.rpartition(":")[2] for name, value in values.items() if "_PORT" in name or ":" in value
    }
    assert set(named.values()) == {str(port_of(host))}
    assert 20_000 <= port_of(host) < 30_000


def test_jobs_on_one_machine_have_ports_of_their_own() -> None:
    names = [f"train-{number}" for number in range(20)]
    texts = [jobset({"w": (2, 1)}).replace("name: train", f"name: {name}") for name in names]
    found = [env(text) for text in texts]
    assert len({each["MASTER_ADDR"] for each in found}) == len({each["MASTER_PORT"] for each in found}) == 20


def test_jax() -> None:
    found = env(jobset({"w": (4, 1)}, "Jax"))
    coordinator = f"train-w-0-0.train:{port_of('train-w-0-0.train')}"
    expected = {"JAX_COORDINATOR_ADDRESS": coordinator, "JAX_NUM_PROCESSES": "4"}
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
    "trainers that do not exist": (
        trainers(jobset({"worker": (2, 1)}), "wroker"),
        "names 'wroker', which is no group of the job; did you mean worker",
    ),
    "trainers without a framework": (
        trainers(jobset({"w": (2, 1)}), "w").replace("muster.dev/training:", "other:"),
        "trainers needs muster.dev/training",
    ),
    "trainers between others": (
        trainers(jobset({"a": (1, 1), "b": (1, 1), "c": (1, 1)}), "a,c"),
        "must come last",
    ),
    "a Job whose pods have no numbers": (
        jobset({"a": (1, 2)}).replace("completions: 2", "completions: 2\n        completionMode: NonIndexed"),
        "not Indexed",
    ),
    "pods without host names": (
        jobset({"a": (2, 1)}).replace(
            "spec:\n  replicated", "spec:\n  network: {enableDNSHostnames: false}\n  replicated"
        ),
        "host names",
    ),
    "in a manifest": (manifest({"w": {"count": 2}}, "Caffe"), "Caffe"),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED)
def test_a_training_environment_without_definite_ranks_is_refused(text: str, told: str) -> None:
    with pytest.raises(JobFileError, match=told):
        load("f.yaml", Options(suffix="0"), text=text)


def test_without_the_annotation_nothing_is_added() -> None:
    assert env(jobset({"w": (4, 1)}).replace("muster.dev/training: PyTorch", "a: b")) == {}

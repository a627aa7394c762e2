"""What a job becomes on each target, and what a target refuses."""

from typing import Any

import pytest

from muster.api.fields import Severity
from muster.compiler import Facts
from muster.workloads.batch.job import ACTIONS, EVENTS
from muster.workloads.check import check, members_of_groups
from muster.workloads.demand import demand
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.platform import Platform, TargetName
from muster.workloads.training import port_of
from tests.workloads.batch.jobs import TRAINING, changed, compiled, parsed, small

TRAIN = {
    "spec/queue": None,
    "spec/minAvailable": None,
    "spec/tasks/workers/replicas": 4,
    "spec/tasks/master": {
        "workload": {
            "containers": {
                "trainer": {
                    "image": "registry.example.com/t@sha256:" + "b" * 64,
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}},
                }
            }
        }
    },
    "spec/training": {"framework": "PyTorch", "nccl": {"netIf": "eth0"}},
}


HOST = "training-run-42-master-0-0.training-run-42"
PORT = str(port_of(HOST))


def env(container: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_training_numbers_pods_over_all_tasks_with_the_coordinator_first() -> None:
    [job] = compiled(changed(TRAINING, TRAIN)).jobs
    first, second = job["spec"]["replicatedJobs"]
    assert (first["name"], first["replicas"]) == ("master", 1)
    assert (second["name"], second["replicas"]) == ("workers", 4)
    assert second["template"]["spec"]["completions"] == 1
    [container] = first["template"]["spec"]["template"]["spec"]["containers"]
    variables = env(container)
    assert variables["MASTER_ADDR"] == "training-run-42-master-0-0.training-run-42"
    assert variables["WORLD_SIZE"] == "5"
    assert variables["NNODES"] == "5"
    assert "job-global-index" in variables["RANK"]["fieldRef"]["fieldPath"]
    assert variables["NCCL_SOCKET_IFNAME"] == "eth0"
    assert job["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["master"]}


@pytest.mark.parametrize("framework", ["PyTorch", "DeepSpeed"])
def test_each_pod_has_the_whole_environment(framework: str) -> None:
    """5 pods, each of one process or, with torchrun, of 8."""
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"}
    gpus = {"spec/tasks/workers/workload/containers/trainer/resources": {"limits": limits}}
    asked = {"framework": framework, "nccl": NCCL}
    [job] = compiled(changed(TRAINING, TRAIN | gpus | {"spec/training": asked})).jobs
    for group in job["spec"]["replicatedJobs"]:
        [container] = group["template"]["spec"]["template"]["spec"]["containers"]
        found = env(container)
        for name in ("RANK", "NODE_RANK", "PET_NODE_RANK"):
            rank = found.pop(name)["fieldRef"]["fieldPath"]
            assert rank == "metadata.labels['jobset.sigs.k8s.io/job-global-index']"
        found.pop("S3_BUCKET", None)
        assert found == {
            "MASTER_ADDR": "training-run-42-master-0-0.training-run-42",
            "MASTER_PORT": PORT,
            "NNODES": "5",
            "NPROC_PER_NODE": "8",
            "WORLD_SIZE": "5",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "PET_MASTER_ADDR": "training-run-42-master-0-0.training-run-42",
            "PET_MASTER_PORT": PORT,
            "PET_NNODES": "5",
            "PET_NPROC_PER_NODE": "8",
            "NCCL_SOCKET_IFNAME": "eth0",
            "NCCL_IB_HCA": "mlx5",
            "NCCL_NET_GDR_LEVEL": "SYS",
            "NCCL_DEBUG": "WARN",
            "NCCL_ALGO": "Ring",
        }


NCCL = {"netIf": "eth0", "ibHca": "mlx5", "gdr": True, "debug": "WARN", "extraEnv": {"NCCL_ALGO": "Ring"}}
COORDINATORS: list[tuple[dict[str, Any], str]] = [
    ({"spec/training": {"framework": "PyTorch"}}, "master"),
    ({"spec/training": {"framework": "PyTorch", "coordinatorTask": "workers"}}, "workers"),
    ({"spec/training": {"framework": "PyTorch"}}, "a"),
]


@pytest.mark.parametrize(("change", "name"), COORDINATORS, ids=[each[1] for each in COORDINATORS])
def test_the_coordinator_is_the_task_named_so_or_master_or_the_first(
    change: dict[str, Any], name: str
) -> None:
    master = TRAIN["spec/tasks/master"]
    rest = {key: value for key, value in TRAIN.items() if key != "spec/tasks/master"}
    text = changed(TRAINING, rest | {f"spec/tasks/{'a' if name == 'a' else 'master'}": master} | change)
    [job] = compiled(text).jobs
    groups = job["spec"]["replicatedJobs"]
    assert groups[0]["name"] == name
    [container] = groups[-1]["template"]["spec"]["template"]["spec"]["containers"]
    assert env(container)["MASTER_ADDR"] == f"training-run-42-{name}-0-0.training-run-42"
    [volcano] = compiled(text, target="volcano").jobs
    [other] = {task["name"] for task in volcano["spec"]["tasks"]} - {name}
    assert volcano["spec"]["plugins"] == {
        "env": [],
        "svc": ["--publish-not-ready-addresses"],
        "pytorch": [f"--master={name}", f"--worker={other}", "--port=29500"],
    }
    ends = {task["name"]: task.get("policies") for task in volcano["spec"]["tasks"]}
    assert ends == {name: [{"event": "TaskCompleted", "action": "CompleteJob"}], other: None}


def test_a_task_called_master_coordinates_wherever_it_stands() -> None:
    [job] = compiled(changed(TRAINING, TRAIN | {"spec/tasks/a": TRAIN["spec/tasks/master"]})).jobs
    assert [each["name"] for each in job["spec"]["replicatedJobs"]] == ["master", "a", "workers"]


def test_jax_has_variables_of_its_own() -> None:
    [job] = compiled(changed(TRAINING, TRAIN | {"spec/training": {"framework": "Jax"}})).jobs
    [container] = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    variables = env(container)
    assert variables["JAX_COORDINATOR_ADDRESS"] == f"{HOST}:{PORT}"
    assert variables["JAX_NUM_PROCESSES"] == "5"
    assert "job-global-index" in variables["JAX_PROCESS_ID"]["fieldRef"]["fieldPath"]
    assert "WORLD_SIZE" not in variables


def test_fewer_pods_than_all_are_a_pod_group() -> None:
    group, job = compiled(changed(TRAINING, {"spec/minAvailable": 6})).jobs
    assert (group["kind"], group["spec"]["minMember"]) == ("PodGroup", 6)
    assert group["metadata"]["labels"]["muster.dev/queue"] == "ml-training"
    labels = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]["labels"]
    assert labels["scheduling.x-k8s.io/pod-group"] == "training-run-42"


def test_a_job_for_volcano() -> None:
    text = changed(
        TRAINING,
        {
            "spec/maxRetry": 3,
            "spec/policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "spec/topology": {"mode": "Hard", "maxTier": 1},
        },
    )
    [job] = compiled(text, target="volcano").jobs
    assert job["apiVersion"] == "batch.volcano.sh/v1alpha1"
    spec = job["spec"]
    assert (spec["minAvailable"], spec["queue"], spec["maxRetry"]) == (8, "ml-training", 3)
    assert spec["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}
    assert spec["policies"] == [{"event": "PodEvicted", "action": "RestartJob"}]


def test_a_schedule_for_volcano_is_its_cron_job() -> None:
    [job] = compiled(changed(TRAINING, {"spec/schedule": "0 2 * * *"}), target="volcano").jobs
    assert (job["kind"], job["spec"]["schedule"]) == ("CronJob", "0 2 * * *")
    assert job["spec"]["jobTemplate"]["spec"]["minAvailable"] == 8


def test_a_schedule_for_volcano_asks_for_what_one_of_its_jobs_does() -> None:
    platform = Platform(target="volcano", facts=Facts())
    once, often = (
        load("job.yaml", Options(platform=platform), text=changed(TRAINING, change))
        for change in ({}, {"spec/schedule": "0 2 * * *"})
    )
    told = [(each.name, each.template, each.count, each.pods, each.gpus) for each in demand(often)]
    assert told == [(each.name, each.template, each.count, each.pods, each.gpus) for each in demand(once)]
    assert [each.message for each in check(often)] == [each.message for each in check(once)]


@pytest.mark.parametrize("target", ["muster", "native", "volcano"])
def test_one_run_of_a_schedule_is_called_that(target: TargetName) -> None:
    text = changed(TRAINING, {"spec/schedule": "0 2 * * *", "spec/queue": None})
    job = load("job.yaml", Options(platform=Platform(target=target, facts=Facts())), text=text)
    told = [each for each in job.notes if each.path == ("spec", "schedule")]
    assert [each.severity for each in told] == ([] if target == "volcano" else [Severity.NOTE])
    assert all("one run, without the schedule" in each.message for each in told)


def test_kubernetes_own_gangs() -> None:
    group, job = compiled(changed(TRAINING, {"spec/queue": None}), target="native").jobs
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 8}}}
    pod = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["schedulingGroup"] == {"podGroupName": "training-run-42"}
    assert "suspend" not in job["spec"]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("native", {}, "no queues"),
    ("native", {"spec/queue": None, "spec/topology": {"mode": "Soft"}}, "no tiers"),
    ("muster", {"spec/topology": {"mode": "Soft"}}, "tiers are Volcano's"),
    (
        "muster",
        {"spec/policies": [{"event": "PodPending", "action": "RestartJob"}]},
        "PodPending → RestartJob",
    ),
    ("muster", {"spec/tasks/workers/restartPolicy": "Always"}, "Never or OnFailure"),
    ("volcano", TRAIN | {"spec/training": {"framework": "Jax"}}, "use target muster"),
]


@pytest.mark.parametrize(("target", "change", "message"), REFUSED)
def test_what_a_target_cannot_express_is_refused(target: str, change: dict[str, Any], message: str) -> None:
    problems = compiled(changed(TRAINING, change), target=target).problems
    assert [each for each in problems if message in each.message], problems


def told(event: str, action: str, where: str = "spec") -> dict[str, Any]:
    return {f"{where}/policies": [{"event": event, "action": action}]}


WORKERS = "spec/tasks/workers"
FAILURES = ("PodFailed", "TaskFailed", "*")
#: changes of the job, restarts of the JobSet, its success policy
CONSEQUENCES: list[tuple[dict[str, Any], int, Any]] = [
    ({}, 0, None),
    ({"spec/maxRetry": 2}, 2, None),
    *((told(event, "RestartJob"), 3, None) for event in FAILURES),
    (told("PodFailed", "RestartJob", WORKERS), 3, None),
    (told("PodFailed", "RestartJob") | {"spec/maxRetry": 5}, 5, None),
    (told("PodFailed", "RestartJob") | {"spec/maxRetry": 0}, 0, None),
    *((told(each, "AbortJob") | {"spec/maxRetry": 2}, 0, None) for each in FAILURES),
    *((told(each, "TerminateJob") | {"spec/maxRetry": 2}, 0, None) for each in FAILURES),
    *((told("PodEvicted", f"Restart{each}"), 0, None) for each in ("Job", "Task", "Pod")),
    (told("TaskCompleted", "CompleteJob"), 0, {"operator": "Any"}),
    (
        told("TaskCompleted", "CompleteJob", WORKERS),
        0,
        {"operator": "All", "targetReplicatedJobs": ["workers"]},
    ),
]


@pytest.mark.parametrize(("change", "restarts", "success"), CONSEQUENCES)
def test_what_a_policy_does_on_a_job_set(change: dict[str, Any], restarts: int, success: Any) -> None:
    result = compiled(changed(TRAINING, change))
    assert not result.problems, result.problems
    [job] = result.jobs
    assert job["spec"]["failurePolicy"] == {"maxRestarts": restarts}
    assert job["spec"].get("successPolicy") == success


@pytest.mark.parametrize("event", EVENTS)
def test_volcano_does_whatever_a_policy_says_and_a_job_set_what_it_can(event: str) -> None:
    able = {(each["event"], each["action"]) for change, *_ in CONSEQUENCES for each in policies_of(change)}
    for action in ACTIONS:
        text = changed(TRAINING, told(event, action))
        assert compiled(text, target="volcano").jobs[0]["spec"]["policies"] == [
            {"event": event, "action": action}
        ]
        refused = [each.message for each in compiled(text).problems]
        assert bool(refused) == ((event, action) not in able)
        assert all(f"{event} → {action} is more than a JobSet can do" in each for each in refused)


def policies_of(change: dict[str, Any]) -> list[dict[str, str]]:
    return [each for key, value in change.items() if key.endswith("policies") for each in value]


def test_policies_become_failure_and_success_policies() -> None:
    change = {
        "spec/policies": [{"event": "PodFailed", "action": "RestartJob"}],
        "spec/tasks/workers/policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "spec/maxRetry": 5,
    }
    [job] = compiled(changed(TRAINING, change)).jobs
    assert job["spec"]["failurePolicy"] == {"maxRestarts": 5}
    assert job["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["workers"]}


def of_task(result: Any) -> dict[str, Any]:
    template: dict[str, Any] = result.jobs[-1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return template


def gpu(class_: str | None = None, /, **params: Any) -> str:
    resource = {"type": "gpu", "params": params, **({"class": class_} if class_ else {})}
    return small(None, gpu=resource)


def test_gpus_are_limits_with_all_that_their_pods_need() -> None:
    spec = of_task(compiled(gpu("nvidia", count=2, model="H100-SXM")))["spec"]
    [container] = spec["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert spec["nodeSelector"] == {"nvidia.com/gpu.product": "H100-SXM"}
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["runtimeClassName"] == "nvidia"
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in spec["volumes"]
    own = gpu(tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert of_task(compiled(own))["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert "runtimeClassName" not in of_task(compiled(own))["spec"]


def test_a_share_of_a_gpu() -> None:
    template = of_task(compiled(gpu(compute=25)))
    assert template["metadata"]["annotations"]["muster.dev/gpu-share"] == "250"
    assert "nvidia.com/gpu" not in template["spec"]["containers"][0]["resources"]["limits"]
    [job] = compiled(gpu(compute=25, memory="8Gi", count=2), target="volcano").jobs
    [container] = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    assert {key: limits[key] for key in limits if key.startswith("volcano")} == {
        "volcano.sh/vgpu-number": "2",
        "volcano.sh/vgpu-cores": "25",
        "volcano.sh/vgpu-memory": "8192",
    }


SHARES: list[tuple[str, dict[str, Any], str]] = [
    ("muster", {"memory": "8Gi"}, "not its memory"),
    ("muster", {"compute": 25, "count": 2}, "a share is of one GPU"),
    ("native", {"compute": 25}, "no shares of GPUs"),
]


@pytest.mark.parametrize(("target", "params", "message"), SHARES)
def test_a_share_that_a_target_does_not_know_is_refused(
    target: str, params: dict[str, Any], message: str
) -> None:
    assert message in str(compiled(gpu(**params), target=target).problems)


def test_training_runs_what_was_verified_and_nothing_else() -> None:
    """Defect 4 of the reference: shells and an init container that the allow-list did not know."""

    def programs(change: dict[str, Any]) -> list[Any]:
        [job] = compiled(changed(TRAINING, change)).jobs
        pods = {
            each["name"]: each["template"]["spec"]["template"]["spec"]
            for each in job["spec"]["replicatedJobs"]
        }
        fields = ("name", "image", "command", "args")
        return [
            (name, [[each.get(field) for field in fields] for each in pod["containers"]], len(pod))
            for name, pod in sorted(pods.items())
        ]

    assert programs(TRAIN) == programs({key: TRAIN[key] for key in TRAIN if key != "spec/training"})


PROGRESS = {"file": "log", "stalledAfter": "15m", "lossFinite": True, "lossFactor": 2.5, "action": "none"}


def test_rules_of_progress_are_on_the_job_and_its_file_on_the_pods() -> None:
    [job] = compiled(changed(TRAINING, {"spec/progress": PROGRESS, "spec/minAvailable": None})).jobs
    rules = "stalledAfter=15m lossFinite=true lossFactor=2.5 action=none"
    assert job["metadata"]["annotations"]["muster.dev/progress-rules"] == rules
    template = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"]["annotations"]["muster.dev/progress-file"] == "log"


def test_a_job_with_a_minimum_has_its_rules_on_the_group_that_makes_it_a_gang() -> None:
    change = {"spec/progress": PROGRESS, "spec/minAvailable": 6, "spec/onGpuAnomaly": "none"}
    group, _ = compiled(changed(TRAINING, change)).jobs
    assert list(group["metadata"]["annotations"]) == [
        "muster.dev/on-gpu-anomaly",
        "muster.dev/progress-rules",
    ]


WRONG_PROGRESS: dict[str, tuple[Any, str]] = {
    "no rule": ({"file": "log"}, "progress: has no rule; rules: stalledAfter, lossFinite, lossFactor"),
    "no time": ({"stalledAfter": "0s"}, "stalledAfter: must be a time above 0"),
    "no duration": ({"stalledAfter": "soon"}, "stalledAfter: 'soon' is not a duration"),
    "no factor": ({"lossFactor": 1}, "lossFactor: is 1; it must be more than 1"),
    "another action": ({"lossFinite": True, "action": "move"}, "action"),
    "another field": ({"lossFinite": True, "stalled": "15m"}, "stalled: unknown field"),
}


@pytest.mark.parametrize(("progress", "told"), WRONG_PROGRESS.values(), ids=WRONG_PROGRESS)
def test_wrong_rules_of_progress_are_findings(progress: Any, told: str) -> None:
    _, findings = parsed(changed(TRAINING, {"spec/progress": progress}))
    assert any(told in str(each) for each in findings), [str(each) for each in findings]


@pytest.mark.parametrize("target", ["volcano", "native"])
def test_a_job_asks_for_the_same_pods_on_each_target_and_its_gang_lacks_none(target: TargetName) -> None:
    text = changed(TRAINING, {"spec/queue": None})

    def asked(of: TargetName) -> list[tuple[str, int, int]]:
        job = load("job.yaml", Options(platform=Platform(target=of, facts=Facts())), text=text)
        assert not list(members_of_groups(job))
        return [(each.name, each.count, each.pods) for each in demand(job)]

    assert asked(target) == asked("muster")

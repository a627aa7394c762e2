"""The rows of the format's tables: each field of a job, task and container with what it becomes."""

from typing import Any, Final

import pytest

from muster.compiler import Facts
from muster.compiler.facts import Image, SharedService, SharedVolume
from muster.compiler.secrets import filled
from tests.workloads.batch.jobs import TRAINING, changed, compiled

TASK: Final = "spec/tasks/workers"
CONTAINER: Final = f"{TASK}/workload/containers/trainer"
RESOURCES: Final = "spec/resources"
POD: Final = "spec.tasks.0.template.spec"
INSIDE: Final = f"{POD}.containers.0"
FACTS: Final = Facts(
    services={("data", "db"): SharedService(("ml/*",), ports={80: 80, 5432: 5432, 9000: 9000})},
    volumes={("ml", "sets"): SharedVolume("sets", ("*",))},
)
CRON: Final = {"spec/schedule": "0 2 * * *"}


def at(value: Any, path: str) -> Any:
    """The value at a path such as `spec.tasks.0.name`."""
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def of_container(**security: Any) -> dict[str, Any]:
    return {f"{CONTAINER}/security": security}


CONTEXT: Final = f"{INSIDE}.securityContext"
RESTRICTED: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "appArmorProfile": {"type": "RuntimeDefault"},
}
OF_POD: Final = {
    "fsGroup": 65534,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
#: field, security, path in Volcano's Job, value there
SECURITY: Final[list[tuple[str, dict[str, Any], str, Any]]] = [
    ("absent", {}, CONTEXT, RESTRICTED),
    ("absent, of the pod", {}, f"{POD}.securityContext", OF_POD | {"runAsNonRoot": True}),
    ("runAsNonRoot: false", {"runAsNonRoot": False}, f"{POD}.securityContext", OF_POD),
    ("capabilities", {"capabilities": ["NET_ADMIN"]}, f"{CONTEXT}.capabilities.add", ["NET_ADMIN"]),
    ("dropCapabilities", {"dropCapabilities": ["KILL"]}, f"{CONTEXT}.capabilities.drop", ["KILL"]),
    ("privileged", {"privileged": True}, f"{CONTEXT}.privileged", True),
    ("privileged escalates", {"privileged": True}, f"{CONTEXT}.allowPrivilegeEscalation", True),
    (
        "readOnlyRootFilesystem",
        {"readOnlyRootFilesystem": False},
        f"{CONTEXT}.readOnlyRootFilesystem",
        False,
    ),
    ("runAsUser", {"runAsUser": 7}, f"{CONTEXT}.runAsUser", 7),
    ("runAsUser: 0", {"runAsUser": 0}, f"{CONTEXT}.runAsNonRoot", False),
    ("runAsGroup", {"runAsGroup": 7}, f"{CONTEXT}.runAsGroup", 7),
    (
        "allowPrivilegeEscalation",
        {"allowPrivilegeEscalation": True},
        f"{CONTEXT}.allowPrivilegeEscalation",
        True,
    ),
    ("seccompProfile", {"seccompProfile": "Unconfined"}, f"{CONTEXT}.seccompProfile", {"type": "Unconfined"}),
    (
        "seccompLocalhostProfile",
        {"seccompProfile": "Localhost", "seccompLocalhostProfile": "a.json"},
        f"{CONTEXT}.seccompProfile",
        {"type": "Localhost", "localhostProfile": "a.json"},
    ),
    (
        "apparmorProfile",
        {"apparmorProfile": "Unconfined"},
        f"{CONTEXT}.appArmorProfile",
        {"type": "Unconfined"},
    ),
    (
        "apparmorLocalhostProfile",
        {"apparmorProfile": "Localhost", "apparmorLocalhostProfile": "mine"},
        f"{CONTEXT}.appArmorProfile",
        {"type": "Localhost", "localhostProfile": "mine"},
    ),
]
#: row, changes of the chapter's job, path in Volcano's Job or CronJob, value there
JOB_ROWS: Final[list[tuple[str, dict[str, Any], str, Any]]] = [
    ("schedulerName", {"spec/schedulerName": "volcano-gpu"}, "spec.schedulerName", "volcano-gpu"),
    ("schedulerName, absent", {}, "spec.schedulerName", "volcano"),
    ("minAvailable", {"spec/minAvailable": 6}, "spec.minAvailable", 6),
    ("minAvailable, absent", {"spec/minAvailable": None}, "spec.minAvailable", 8),
    ("maxRetry", {"spec/maxRetry": 3}, "spec.maxRetry", 3),
    ("maxRetry: 0, which Volcano reads as 3", {"spec/maxRetry": 0}, "spec.maxRetry", 1),
    ("queue", {}, "spec.queue", "ml-training"),
    ("priorityClassName", {"spec/priorityClassName": "low"}, "spec.priorityClassName", "low"),
    ("schedule", CRON, "spec.schedule", "0 2 * * *"),
    ("schedule: its job", CRON, "spec.jobTemplate.spec.minAvailable", 8),
    ("timeZone", CRON | {"spec/timeZone": "Europe/Berlin"}, "spec.timeZone", "Europe/Berlin"),
    *(
        (
            f"concurrencyPolicy: {policy}",
            CRON | {"spec/concurrencyPolicy": policy},
            "spec.concurrencyPolicy",
            policy,
        )
        for policy in ("Allow", "Forbid", "Replace")
    ),
    ("concurrencyPolicy, absent", CRON, "spec.concurrencyPolicy", "Allow"),
    ("successfulJobsHistoryLimit, absent", CRON, "spec.successfulJobsHistoryLimit", 3),
    ("failedJobsHistoryLimit, absent", CRON, "spec.failedJobsHistoryLimit", 1),
    ("suspend", CRON | {"spec/suspend": True}, "spec.suspend", True),
    (
        "successfulJobsHistoryLimit",
        CRON | {"spec/successfulJobsHistoryLimit": 5},
        "spec.successfulJobsHistoryLimit",
        5,
    ),
    ("failedJobsHistoryLimit", CRON | {"spec/failedJobsHistoryLimit": 2}, "spec.failedJobsHistoryLimit", 2),
    (
        "startingDeadlineSeconds",
        CRON | {"spec/startingDeadlineSeconds": 120},
        "spec.startingDeadlineSeconds",
        120,
    ),
    (
        "topology: Hard",
        {"spec/topology": {"mode": "Hard", "maxTier": 2}},
        "spec.networkTopology",
        {"mode": "hard", "highestTierAllowed": 2},
    ),
    ("topology: Soft", {"spec/topology": {"mode": "Soft"}}, "spec.networkTopology", {"mode": "soft"}),
    (
        "topology.mode, absent",
        {"spec/topology": {"maxTier": 1}},
        "spec.networkTopology",
        {"mode": "soft", "highestTierAllowed": 1},
    ),
    (
        "policies",
        {"spec/policies": [{"event": "PodEvicted", "action": "RestartJob"}]},
        "spec.policies",
        [{"event": "PodEvicted", "action": "RestartJob"}],
    ),
    (
        "defaults",
        {"spec/defaults/replicas": 3, f"{TASK}/replicas": None, "spec/minAvailable": None},
        "spec.tasks.0.replicas",
        3,
    ),
    ("tasks", {}, "spec.tasks.0.name", "workers"),
    (
        "training",
        {"spec/training": {"framework": "PyTorch", "coordinatorTask": "workers", "nccl": {"debug": "INFO"}}},
        f"{INSIDE}.env.0",
        {"name": "NCCL_DEBUG", "value": "INFO"},
    ),
    ("task.replicas", {f"{TASK}/replicas": 9}, "spec.tasks.0.replicas", 9),
    ("task.restartPolicy", {f"{TASK}/restartPolicy": "Never"}, f"{POD}.restartPolicy", "Never"),
    ("task.restartPolicy, absent", {f"{TASK}/restartPolicy": None}, f"{POD}.restartPolicy", "Never"),
    ("task.restartPolicy: OnFailure", {}, f"{POD}.restartPolicy", "OnFailure"),
    ("task.restartPolicy: Always", {f"{TASK}/restartPolicy": "Always"}, f"{POD}.restartPolicy", "Always"),
    (
        "task.policies",
        {f"{TASK}/policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]},
        "spec.tasks.0.policies",
        [{"event": "TaskCompleted", "action": "CompleteJob"}],
    ),
    (
        "task.sidecars",
        {
            f"{TASK}/sidecars": {
                "logs": {"image": "logs:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
            }
        },
        f"{POD}.initContainers.0.restartPolicy",
        "Always",
    ),
    (
        "task.sysctls",
        {f"{TASK}/sysctls": {"kernel.shm_rmid_forced": "1"}},
        f"{POD}.securityContext.sysctls",
        [{"name": "kernel.shm_rmid_forced", "value": "1"}],
    ),
    ("task.hostNetwork", {f"{TASK}/hostNetwork": True}, f"{POD}.hostNetwork", True),
    (
        "task.shareProcessNamespace",
        {f"{TASK}/shareProcessNamespace": True},
        f"{POD}.shareProcessNamespace",
        True,
    ),
    ("task.automountServiceAccountToken, absent", {}, f"{POD}.automountServiceAccountToken", False),
    (
        "task.automountServiceAccountToken",
        {f"{TASK}/automountServiceAccountToken": True},
        f"{POD}.automountServiceAccountToken",
        True,
    ),
    (
        "task.imagePullSecrets",
        {},
        f"{POD}.imagePullSecrets",
        [{"name": filled("training-run-42-workers-default-credentials")}],
    ),
    ("container.image", {}, f"{INSIDE}.image", "registry.example.com/trainer@sha256:def456"),
    ("container.command", {f"{CONTAINER}/command": ["/bin/a", "b"]}, f"{INSIDE}.command", ["/bin/a", "b"]),
    ("container.args", {f"{CONTAINER}/args": ["a"]}, f"{INSIDE}.args", ["a"]),
    ("container.workingDir", {f"{CONTAINER}/workingDir": "/w"}, f"{INSIDE}.workingDir", "/w"),
    (
        "container.variables",
        {},
        f"{INSIDE}.env",
        [
            {
                "name": "S3_BUCKET",
                "valueFrom": {
                    "secretKeyRef": {
                        "name": filled("training-run-42-workers-training-data"),
                        "key": "bucket",
                    }
                },
            }
        ],
    ),
    (
        "container.files",
        {f"{CONTAINER}/files": {"/etc/a": {"content": "x", "mode": "0400"}}},
        f"{INSIDE}.volumeMounts.0.mountPath",
        "/etc/a",
    ),
    (
        "container.files.mode",
        {f"{CONTAINER}/files": {"/etc/a": {"content": "x", "mode": "0400"}}},
        f"{POD}.volumes.0.configMap.items.0.mode",
        0o400,
    ),
    (
        "container.files.mode as YAML's number",
        {f"{CONTAINER}/files": {"/etc/a": {"content": "x", "mode": 0o440}}},
        f"{POD}.volumes.0.configMap.items.0.mode",
        0o440,
    ),
    (
        "container.files: nothing writes to one",
        {f"{CONTAINER}/files": {"/etc/a": {"content": "x"}}},
        f"{INSIDE}.volumeMounts.0.readOnly",
        True,
    ),
    (
        "container.volumes without a source",
        {f"{CONTAINER}/volumes": {"/tmp": {"medium": "Memory", "sizeLimit": "1Gi"}}},
        f"{POD}.volumes.0.emptyDir",
        {"medium": "Memory", "sizeLimit": "1Gi"},
    ),
    (
        "container.resources, open-ended",
        {},
        f"{INSIDE}.resources.limits",
        {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1"},
    ),
    (
        "container.resources.requests",
        {f"{CONTAINER}/resources/requests": {"cpu": "1"}},
        f"{INSIDE}.resources.requests",
        {"cpu": "1"},
    ),
    *(
        (
            f"container.{probe}",
            {f"{CONTAINER}/{probe}": {"tcpSocket": {"port": 80}}},
            f"{INSIDE}.{probe}",
            {"tcpSocket": {"port": 80}},
        )
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
    ),
    (
        "container.envFrom",
        {f"{CONTAINER}/envFrom": [{"secretResource": "training-data"}]},
        f"{INSIDE}.envFrom",
        [{"secretRef": {"name": filled("training-run-42-workers-training-data")}}],
    ),
    (
        "resource volume, owned",
        {
            f"{RESOURCES}/own": {"type": "volume", "params": {"size": "1Gi"}},
            f"{CONTAINER}/volumes": {"/d": {"source": "own"}},
        },
        f"{POD}.volumes.0.persistentVolumeClaim.claimName",
        "training-run-42-workers-own",
    ),
    (
        "resource volume, owned, with an id",
        {
            f"{RESOURCES}/own": {"type": "volume", "id": "data", "params": {"size": "1Gi"}},
            f"{CONTAINER}/volumes": {"/d": {"source": "own"}},
        },
        f"{POD}.volumes.0.persistentVolumeClaim.claimName",
        "vol-data",
    ),
    (
        "resource volume, shared",
        {
            f"{RESOURCES}/sets": {"type": "volume", "id": "sets"},
            f"{CONTAINER}/volumes": {"/d": {"source": "sets", "readOnly": True, "path": "a"}},
        },
        f"{INSIDE}.volumeMounts.0.subPath",
        "a",
    ),
    (
        "resource volume: readOnly",
        {
            f"{RESOURCES}/sets": {"type": "volume", "id": "sets"},
            f"{CONTAINER}/volumes": {"/d": {"source": "sets", "readOnly": True}},
        },
        f"{INSIDE}.volumeMounts.0.readOnly",
        True,
    ),
    *((f"container.security: {name}", of_container(**given), *rest) for name, given, *rest in SECURITY),
    (
        "resource gpu: model",
        {f"{RESOURCES}/gpu": {"type": "gpu", "params": {"model": "L4"}}},
        f"{POD}.nodeSelector",
        {"nvidia.com/gpu.product": "L4"},
    ),
]


@pytest.mark.parametrize(("row", "change", "path", "value"), JOB_ROWS, ids=[each[0] for each in JOB_ROWS])
def test_a_field_of_the_job(row: str, change: dict[str, Any], path: str, value: Any) -> None:
    result = compiled(changed(TRAINING, change), target="volcano", facts=FACTS)
    assert not result.problems, result.problems
    assert at(result.jobs[0], path) == value


def test_observability_is_accepted_and_changes_nothing() -> None:
    text = changed(TRAINING, {"spec/observability": {"metrics": {"port": 9090}}})
    assert compiled(text).jobs == compiled(TRAINING).jobs


@pytest.mark.parametrize("mounted", [True, False])
def test_a_service_account_of_a_task_has_a_token_only_if_the_task_asks_for_it(mounted: bool) -> None:
    text = changed(TRAINING, {f"{TASK}/automountServiceAccountToken": mounted})
    [account] = [each for each in compiled(text).support if each["kind"] == "ServiceAccount"]
    assert account["metadata"]["name"] == "training-run-42-workers"
    assert account["automountServiceAccountToken"] is mounted


def test_an_image_that_is_looked_up_is_pinned() -> None:
    text = changed(TRAINING, {f"{CONTAINER}/image": "registry.example.com:5000/trainer:1"})
    facts = Facts(images={"registry.example.com:5000/trainer:1": Image("sha256:" + "a" * 64)})
    [job] = compiled(text, target="volcano", facts=facts).jobs
    assert at(job, f"{INSIDE}.image") == "registry.example.com:5000/trainer@sha256:" + "a" * 64


def test_pods_are_told_when_their_configuration_changes() -> None:
    def hashed(value: str) -> Any:
        [job] = compiled(changed(TRAINING, {f"{CONTAINER}/variables/A": value}), target="volcano").jobs
        return at(job, "spec.tasks.0.template.metadata.annotations")["muster.dev/config-hash"]

    assert hashed("1") == hashed("1") != hashed("2")

"""The rows of the format's tables: each field of a job, task, container and resource with what it becomes."""

from typing import Any, Final

import pytest

from muster.compiler import Facts
from muster.compiler.facts import SharedService, SharedVolume
from muster.compiler.secrets import filled
from tests.workloads.lattice.jobs import TRAINING, changed, compiled, good, small

TASK: Final = "spec/tasks/workers"
CONTAINER: Final = f"{TASK}/workload/containers/trainer"
RESOURCES: Final = "spec/resources"
POD: Final = "spec.tasks.0.template.spec"
INSIDE: Final = f"{POD}.containers.0"
FACTS: Final = Facts(
    services={("data", "db"): SharedService(("ml/*",))},
    volumes={("ml", "sets"): SharedVolume("sets", ("*",))},
)
CRON: Final = {"spec/schedule": "0 2 * * *"}


def at(value: Any, path: str) -> Any:
    """The value at a path such as `spec.tasks.0.name`."""
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


#: row, changes of the chapter's job, path in Volcano's Job or CronJob, value there
JOB_ROWS: Final[list[tuple[str, dict[str, Any], str, Any]]] = [
    ("schedulerName", {"spec/schedulerName": "volcano"}, "spec.schedulerName", "volcano"),
    ("minAvailable", {"spec/minAvailable": 6}, "spec.minAvailable", 6),
    ("minAvailable, absent", {"spec/minAvailable": None}, "spec.minAvailable", 8),
    ("maxRetry", {"spec/maxRetry": 3}, "spec.maxRetry", 3),
    ("queue", {}, "spec.queue", "ml-training"),
    ("priorityClassName", {"spec/priorityClassName": "low"}, "spec.priorityClassName", "low"),
    ("schedule", CRON, "spec.schedule", "0 2 * * *"),
    ("schedule: its job", CRON, "spec.jobTemplate.spec.minAvailable", 8),
    ("concurrencyPolicy", CRON | {"spec/concurrencyPolicy": "Forbid"}, "spec.concurrencyPolicy", "Forbid"),
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


#: row, resource, kind of the object that it becomes, path there, value
RESOURCE_ROWS: Final[list[tuple[str, dict[str, Any], str, str, Any]]] = [
    (
        "service",
        {"type": "service", "namespace": "data", "id": "db", "params": {"port": 5432}},
        "CiliumNetworkPolicy",
        "spec.egress.1.toPorts.0.ports.0.port",
        "5432",
    ),
    (
        "service, inbound from all",
        {"type": "service", "id": "*", "direction": "inbound"},
        "CiliumNetworkPolicy",
        "spec.ingress.0.fromEndpoints.0.matchLabels",
        {"k8s:io.kubernetes.pod.namespace": "ml"},
    ),
    *(
        (
            f"external-service: {url}",
            {"type": "external-service", "params": {"endpoints": {"x": url}}},
            "CiliumNetworkPolicy",
            "spec.egress.1.toPorts.0.ports.0",
            {"port": port, "protocol": protocol},
        )
        for url, port, protocol in (
            ("http://a.example.com", "80", "TCP"),
            ("https://a.example.com", "443", "TCP"),
            ("grpc://a.example.com", "443", "TCP"),
            ("tcp://a.example.com:5432", "5432", "TCP"),
            ("udp://a.example.com:53", "53", "UDP"),
            ("a.example.com:8443", "8443", "TCP"),
        )
    ),
    (
        "external-service: an entity",
        {"type": "external-service", "id": "entity:world:443"},
        "CiliumNetworkPolicy",
        "spec.egress.1",
        {"toEntities": ["world"], "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}]},
    ),
    (
        "external-service: resolution static",
        {
            "type": "external-service",
            "params": {"endpoints": {"x": "tcp://10.0.0.7:80"}, "resolution": "static"},
        },
        "CiliumNetworkPolicy",
        "spec.egress.1.toCIDR",
        ["10.0.0.7/32"],
    ),
    (
        "secret: provider",
        {"type": "secret", "params": {"provider": "vault", "keys": ["k"]}},
        "ExternalSecret",
        "spec.secretStoreRef",
        {"name": "vault", "kind": "ClusterSecretStore"},
    ),
    (
        "secret: id and keys",
        {"type": "secret", "id": "apps/db", "params": {"keys": ["k"]}},
        "ExternalSecret",
        "spec.data",
        [{"secretKey": "k", "remoteRef": {"key": "apps/db", "property": "k"}}],
    ),
    (
        "secret: the default id",
        {"type": "secret", "params": {"keys": ["k"]}},
        "ExternalSecret",
        "spec.data.0.remoteRef.key",
        "ml/x",
    ),
    (
        "secret: no keys",
        {"type": "secret"},
        "ExternalSecret",
        "spec.dataFrom",
        [{"extract": {"key": "ml/x"}}],
    ),
    (
        "secret: refreshInterval",
        {"type": "secret", "params": {"refreshInterval": "5m"}},
        "ExternalSecret",
        "spec.refreshInterval",
        "5m",
    ),
    (
        "secret: secretType",
        {"type": "secret", "params": {"keys": ["k"], "secretType": "kubernetes.io/tls"}},
        "ExternalSecret",
        "spec.target.template",
        {"type": "kubernetes.io/tls"},
    ),
    *(
        (
            f"volume: {name}",
            {"type": "volume", "params": {"size": "1Gi", **params}},
            "PersistentVolumeClaim",
            path,
            value,
        )
        for name, params, path, value in (
            ("size", {}, "spec.resources.requests.storage", "1Gi"),
            ("storageClass", {"storageClass": "fast"}, "spec.storageClassName", "fast"),
            ("accessMode", {"accessMode": "ReadWriteMany"}, "spec.accessModes", ["ReadWriteMany"]),
            (
                "allowedConsumers",
                {"allowedConsumers": ["ml/a", "web/*"]},
                "metadata.annotations",
                {"muster.dev/allowed-consumers": "ml/a,web/*"},
            ),
        )
    ),
    (
        "other types pass through",
        {"type": "settings", "params": {"a": {"b": 3}}},
        "ConfigMap",
        "data.V",
        "3",
    ),
]


@pytest.mark.parametrize(
    ("row", "resource", "kind", "path", "value"), RESOURCE_ROWS, ids=[each[0] for each in RESOURCE_ROWS]
)
def test_a_resource(row: str, resource: dict[str, Any], kind: str, path: str, value: Any) -> None:
    uses: dict[str, dict[str, Any]] = {
        "secret": {"envFrom": [{"secretResource": "x"}]},
        "volume": {"volumes": {"/x": {"source": "x"}}},
        "settings": {"variables": {"V": "${resources.x.a.b}"}},
    }
    result = compiled(small(uses.get(resource["type"]), x=resource), facts=FACTS)
    assert not result.problems, result.problems
    [made] = [each for each in result.support if each["kind"] == kind]
    assert at(made, path) == value


def test_observability_is_accepted_and_changes_nothing() -> None:
    text = changed(TRAINING, {"spec/observability": {"metrics": {"port": 9090}}})
    assert good(text).observability == {"metrics": {"port": 9090}}
    assert compiled(text).jobs == compiled(TRAINING).jobs

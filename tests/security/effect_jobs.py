"""Jobs that together use every field that a batch job has, and what they are compiled to."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from muster.compiler import Facts
from muster.workloads.batch.compiling import Compiled
from muster.workloads.batch.probes import PROBES
from tests.compiler.test_golden import JOB, NAMED, SHARED, VARIANTS
from tests.workloads.batch.jobs import changed, compiled

SERVER: Final = "spec/tasks/serve/workload/containers/server"
TRAINER: Final = "spec/tasks/work/workload/containers/trainer"
NUMBERS: Final = {
    "initialDelaySeconds": 1,
    "timeoutSeconds": 1,
    "periodSeconds": 1,
    "failureThreshold": 1,
    "successThreshold": 1,
    "terminationGracePeriodSeconds": 1,
}
#: What the reviewed job (tests/compiler/golden) leaves out.
REST: Final[dict[str, Any]] = {
    "spec/schedulerName": "volcano-gpu",
    "spec/defaults/resources": {},
    "spec/defaults/workload": {},
    "spec/onGpuAnomaly": "notify",
    "spec/progress": {
        "file": "/tmp/p",
        "stalledAfter": "15m",
        "lossFinite": True,
        "lossFactor": 3,
        "action": "notify",
    },
    "spec/observability": {"metrics": {"port": 9090}},
    "metadata/labels": {"team": "a", "example.com/own": "x"},
    "metadata/annotations": {"example.com/own": "y"},
    f"{SERVER}/livenessProbe": {"exec": {"command": ["/bin/probe", "-x"]}, **NUMBERS},
    f"{SERVER}/readinessProbe": {
        "httpGet": {"path": "/a", "port": 80, "scheme": "HTTPS", "httpHeaders": [{"name": "A", "value": "b"}]}
    },
    f"{SERVER}/startupProbe": {"grpc": {"port": 80, "service": "a"}},
    f"{TRAINER}/startupProbe": {"tcpSocket": {"port": 80}},
    f"{TRAINER}/files/~etc~plain": {"content": "${x}", "noExpand": True},
    f"{TRAINER}/files/~etc~reverse": {"content": "$${metadata.name}", "reverseExpand": True},
    f"{TRAINER}/security/runAsGroup": 0,
    f"{TRAINER}/security/dropCapabilities": ["NET_RAW"],
    f"{TRAINER}/security/privileged": True,
    f"{TRAINER}/security/allowPrivilegeEscalation": True,
    f"{TRAINER}/security/apparmorProfile": "Localhost",
    f"{TRAINER}/security/apparmorLocalhostProfile": "mine",
    f"{SERVER}/security": {"runAsNonRoot": False, "dropCapabilities": []},
    "spec/tasks/work/hostNetwork": True,
    "spec/tasks/work/shareProcessNamespace": True,
    "spec/tasks/work/automountServiceAccountToken": True,
    "spec/tasks/work/policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
    "spec/tasks/serve/workload/service/ports/api/protocol": "TCP",
    "spec/resources/world": {"type": "external-service", "id": "entity:world:443"},
    "spec/resources/all": {"type": "external-service", "id": "entity:host"},
    "spec/resources/syslog": {
        "type": "external-service",
        "params": {"endpoints": {"log": "udp://10.0.0.8:514", "v6": "tcp://[2001:db8::1]:80"}},
    },
    "spec/resources/everyone": {"type": "service", "direction": "inbound", "namespace": "*", "id": "*"},
    "spec/resources/data/params/secretType": "kubernetes.io/basic-auth",
    "spec/resources/own/params/accessMode": "ReadWriteMany",
    "spec/resources/custom": {"type": "settings", "class": "x", "metadata": {"a": "b"}, "params": {"a": "b"}},
    "spec/resources/gpu/params/tolerations": [
        {"operator": "Exists"},
        {"key": "pool", "operator": "Equal", "value": "spot", "effect": "NoExecute", "tolerationSeconds": 5},
    ],
}
SHARE: Final = {"spec/resources/gpu/params": {"count": 1, "compute": 50, "memory": "8Gi"}}
TRAINING: Final = {
    "framework": "PyTorch",
    "coordinatorTask": "serve",
    "nccl": {"netIf": "eth0", "ibHca": "mlx5", "debug": "INFO", "gdr": True, "extraEnv": {"A": "b"}},
}
COMPLETES: Final = {"event": "TaskCompleted", "action": "CompleteJob"}
CRON: Final = {
    "spec/schedule": "0 2 * * *",
    "spec/timeZone": "Europe/Berlin",
    "spec/concurrencyPolicy": "Forbid",
    "spec/suspend": True,
    "spec/startingDeadlineSeconds": 9,
    "spec/successfulJobsHistoryLimit": 5,
    "spec/failedJobsHistoryLimit": 5,
}


def text(*changes: Mapping[str, Any]) -> str:
    """The reviewed job with changes; `~` in a key is a slash."""
    first, *others = changes
    merged = dict(first)
    for each in others:
        for key, value in each.items():
            if value is None and key in merged:
                del merged[key]
            else:
                merged[key] = value
    loaded = yaml.safe_load(changed(JOB, {key: value for key, value in merged.items() if "~" not in key}))
    for key, value in merged.items():
        if "~" in key:
            at = loaded
            *parents, last = key.split("/")
            for name in parents:
                at = at[name]
            at[last.replace("~", "/")] = value
    return yaml.safe_dump(loaded)


#: name → target, facts, job
JOBS: Final[dict[str, tuple[str, Facts, str]]] = {
    **{name: (target, facts, text(change)) for name, (target, facts, change) in VARIANTS.items()},
    "rest": ("muster", Facts(**SHARED), text(REST)),
    "rest in a mesh": ("muster", Facts(istio=True, **SHARED), text(REST)),
    "rest without Cilium": (
        "muster",
        Facts(network="plain", **SHARED),
        text(REST, NAMED, {"spec/resources/world": None, "spec/resources/all": None}),
    ),
    "rest without anything": ("muster", Facts(network="none", tetragon=False, **SHARED), text(REST)),
    "rest of Volcano": (
        "volcano",
        Facts(**SHARED),
        text(REST, CRON, {"spec/topology": {"mode": "Hard", "maxTier": 1}}),
    ),
    "never": ("muster", Facts(**SHARED), text({"spec/defaults/restartPolicy": "Never"})),
    "training of Volcano": (
        "volcano",
        Facts(**SHARED),
        text({"spec/training": TRAINING, "spec/tasks/work/policies": [COMPLETES]}),
    ),
    "share": ("volcano", Facts(**SHARED), text(SHARE)),
    "training": (
        "muster",
        Facts(istio=True, volumes=SHARED["volumes"]),
        text({"spec/training": TRAINING, "spec/resources/features": None, "spec/minAvailable": None}),
    ),
}
MADE: Final[dict[str, Compiled]] = {
    name: compiled(job, target=target, facts=facts) for name, (target, facts, job) in JOBS.items()
}

#: Mappings whose keys a user chooses.
OF_USER: Final = frozenset(
    (
        *("tasks", "files", "volumes", "ports", "variables", "endpoints", "limits", "requests", "sysctls"),
        *("extraEnv", "labels", "annotations", "containers", "sidecars", "resources"),
    )
)


def kind_of(path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The path of a field from its task, container or resource on, without numbers and names of a user's."""
    kinds: list[str] = []
    previous: str | int = ""
    for step in path:
        if previous in OF_USER and kinds != ["container", "resources"]:
            kinds = {"containers": ["container"], "sidecars": ["container"], "resources": ["resource"]}.get(
                str(previous), [*kinds, "*"]
            )
        else:
            kinds.append("*" if isinstance(step, int) else "probe" if step in PROBES else step)
        previous = step
    return tuple(kinds)

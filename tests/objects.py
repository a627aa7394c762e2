"""One valid object of every kind, with as many fields as muster knows, that together make a small cluster.

Other tests put something strange into one of them (`tests/spoiled.py`).
"""

import base64
import json
import zlib
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind

AnyKind = Kind[Any]  # Any: of objects of any type
TIME: Final = "2026-01-01T00:00:00Z"
SELECTOR: Final[Any] = {
    "matchLabels": {"app": "x"},
    "matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}],
}
TERM: Final[Any] = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": SELECTOR,
    "namespaces": ["ns"],
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": ["app"],
    "mismatchLabelKeys": ["team"],
}
NODE_TERM: Final[Any] = {
    "matchExpressions": [
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"key": "size", "operator": "Gt", "values": ["1"]},
    ],
    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["other"]}],
}
CONTAINER: Final[Any] = {
    "name": "main",
    "image": "x",
    "command": ["true"],
    "args": ["a"],
    "workingDir": "/",
    "env": [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ],
    "ports": [{"name": "p", "containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "0.0.0.0"}],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": 1048576}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1},
    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
}
POD_SPEC: Final[Any] = {
    "schedulerName": "muster",
    "restartPolicy": "Never",
    "hostname": "h",
    "subdomain": "s",
    "terminationGracePeriodSeconds": 1,
    "activeDeadlineSeconds": 600,
    "priority": 5,
    "priorityClassName": "high",
    "preemptionPolicy": "PreemptLowerPriority",
    "nodeSelector": {"zone": "a"},
    "tolerations": [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule", "tolerationSeconds": 3}
    ],
    "volumes": [
        {"name": "v", "emptyDir": {}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
    ],
    "containers": [CONTAINER],
    "initContainers": [{"name": "init", "restartPolicy": "Always", "resources": {"requests": {"cpu": 0.25}}}],
    "overhead": {"cpu": "10m"},
    "resources": {"requests": {"cpu": "2"}},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": NODE_TERM}],
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": TERM}]
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    },
    "topologySpreadConstraints": [
        {
            "topologyKey": "zone",
            "maxSkew": 1,
            "minDomains": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
            "matchLabelKeys": ["app"],
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
        }
    ],
}
PLAIN_SPEC: Final[Any] = {
    "schedulerName": "muster",
    "restartPolicy": "Never",
    "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
}
POD_STATUS: Final[Any] = {
    "phase": "Running",
    "reason": "r",
    "podIP": "127.1.0.9",
    "startTime": TIME,
    "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": TIME}],
    "containerStatuses": [
        {
            "name": "main",
            "ready": True,
            "restartCount": 1,
            "state": {"terminated": {"exitCode": 1, "signal": 9, "startedAt": TIME, "finishedAt": TIME}},
            "lastState": {"running": {"startedAt": TIME}},
        }
    ],
}
#: Everything that people may write on a job object, a group or a pod.
MARKS: Final[Any] = {
    "muster.dev/queue": "q",
    "muster.dev/priority": "7",
    "muster.dev/hold": "false",
    "muster.dev/on-partial": "recreate",
    "muster.dev/below-minimum": "leave",
    "muster.dev/preemptible": "true",
    "muster.dev/min-run-time": "10m",
    "muster.dev/restart-cost": "5m",
    "muster.dev/checkpoint": "30m",
    "muster.dev/run-time": "2h",
    "muster.dev/deadline": "6h",
    "muster.dev/time-used": "12.5",
    "muster.dev/running-since": TIME,
    "muster.dev/restart-budget": "3",
    "muster.dev/failures": '{"u": 1}',
    "muster.dev/exclusive": "rack",
    "muster.dev/plan": "1.1/main/0",
    "muster.dev/shared-volume": "true",
    "muster.dev/pretend": "run=30s,exit=1",
    "gang.scheduling.koordinator.sh/network-topology-spec": (
        '{"gatherStrategy": [{"layer": "rack", "strategy": "PreferGather", "podCountMultiple": 2}]}'
    ),
    "gang.scheduling.koordinator.sh/network-topology-index": "1",
}
INDEXED: Final[Any] = {
    "batch.kubernetes.io/job-completion-index": "0",
    "batch.kubernetes.io/job-index-failure-count": "1",
    "batch.kubernetes.io/job-index-ignored-failure-count": "1",
}
JOB_LABELS: Final[Any] = {
    "jobset.sigs.k8s.io/jobset-name": "set",
    "jobset.sigs.k8s.io/replicatedjob-name": "w",
    "jobset.sigs.k8s.io/job-index": "0",
    "jobset.sigs.k8s.io/job-global-index": "0",
    "jobset.sigs.k8s.io/restart-attempt": "0",
    "jobset.sigs.k8s.io/job-restart-attempt": "0",
}
TEMPLATE: Final[Any] = {"metadata": {"labels": {"app": "x"}, "annotations": {}}, "spec": POD_SPEC}
JOB_SPEC: Final[Any] = {
    "completionMode": "Indexed",
    "completions": 2,
    "parallelism": 2,
    "backoffLimit": 3,
    "backoffLimitPerIndex": 1,
    "maxFailedIndexes": 1,
    "activeDeadlineSeconds": 3600,
    "ttlSecondsAfterFinished": 100,
    "template": TEMPLATE,
    "podFailurePolicy": {
        "rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], "containerName": "main"}},
        ]
    },
    "successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]},
}


def meta(name: str, namespace: str = "ns", owner: tuple[str, str, str] | None = None, **more: Any) -> Any:
    """`owner`: apiVersion, kind and name of the controller. Any: JSON"""
    found: Any = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "5",
        "generation": 1,
        "creationTimestamp": TIME,
        "labels": {"app": "x"},
        "annotations": {"a": "b"},
        "finalizers": ["a.b/c"],
        **more,
    }
    if namespace:
        found["namespace"] = namespace
    if owner is not None:
        version, kind, owner_name = owner
        reference = {"apiVersion": version, "kind": kind, "name": owner_name, "uid": f"uid-{owner_name}"}
        found["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    return found


def _blob() -> str:
    body = {"gang": "ns/job", "nodes": ["n0"], "places": {"main": [[0, 2, 0]]}, "pods": {}, "victims": []}
    return base64.b64encode(zlib.compress(json.dumps(body).encode())).decode()


GANG_LABEL: Final = {"muster.dev/gang": "true"}
#: Kind and object, owners before what they own.
CLUSTER: Final[list[tuple[AnyKind, Any]]] = [
    (kinds.NAMESPACE, {"metadata": meta("ns", "", labels={"team": "x"}), "status": {"phase": "Active"}}),
    (kinds.PRIORITY_CLASS, {"metadata": meta("high", ""), "value": 5, "preemptionPolicy": "Never"}),
    (
        kinds.STORAGE_CLASS,
        {"metadata": meta("fast", ""), "volumeBindingMode": "Immediate", "provisioner": "x/y"},
    ),
    (
        kinds.PERSISTENT_VOLUME,
        {
            "metadata": meta("volume", ""),
            "spec": {
                "claimRef": {"namespace": "ns", "name": "claim"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [NODE_TERM]}},
            },
        },
    ),
    (
        kinds.PERSISTENT_VOLUME_CLAIM,
        {
            "metadata": meta("claim"),
            "spec": {"volumeName": "volume", "storageClassName": "fast"},
            "status": {"phase": "Bound"},
        },
    ),
    (
        kinds.CLUSTER_NETWORK_TOPOLOGY,
        {
            "metadata": meta("default", ""),
            "spec": {
                "networkTopologySpec": [
                    {"topologyLayer": "zone", "labelKey": ["zone"]},
                    {"topologyLayer": "rack", "parentTopologyLayer": "zone", "labelKey": ["rack"]},
                ]
            },
        },
    ),
    (
        kinds.LIMIT_RANGE,
        {
            "metadata": meta("range"),
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "max": {"cpu": "64"},
                        "min": {"cpu": "1m"},
                        "default": {"memory": "1Gi"},
                        "defaultRequest": {"memory": "1Mi"},
                    }
                ]
            },
        },
    ),
    (
        kinds.RUNTIME_CLASS,
        {
            "metadata": meta("sandbox", ""),
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {
                "nodeSelector": {"zone": "a"},
                "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
            },
        },
    ),
    (
        kinds.RESOURCE_QUOTA,
        {
            "metadata": meta("quota"),
            "spec": {
                "hard": {"pods": "100", "requests.cpu": "1k"},
                "scopes": ["NotBestEffort"],
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                },
            },
            "status": {"hard": {"pods": "100"}, "used": {"pods": "1"}},
        },
    ),
    (
        kinds.NODE,
        {
            "metadata": meta("n0", "", labels={"zone": "a", "rack": "r", "size": "3"}),
            "spec": {
                "taints": [{"key": "a", "value": "b", "effect": "NoSchedule", "timeAdded": TIME}],
                "unschedulable": False,
            },
            "status": {
                "capacity": {"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": 8, "pods": "110"},
                "allocatable": {"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": 8, "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            },
        },
    ),
    (
        kinds.QUEUE,
        {
            "metadata": meta("q", ""),
            "spec": {
                "parent": "root",
                "weight": 2,
                "guarantee": {"cpu": "1"},
                "deserved": {"cpu": 2},
                "capability": {"cpu": "32"},
                "order": "fair",
                "reclaimable": True,
                "closed": False,
                "maxGangs": 5,
                "maxPriority": 100,
                "maxExclusiveLayer": "Rack",
                "protectBorrowed": True,
                "allow": {"namespaces": ["ns"], "users": ["u"]},
            },
            "status": {"used": {"cpu": "1"}, "waiting": 1},
        },
    ),
    (
        kinds.PDB,
        {
            "metadata": meta("budget"),
            "spec": {"minAvailable": "50%", "selector": SELECTOR},
            "status": {"disruptionsAllowed": 1, "observedGeneration": 0},
        },
    ),
    (
        kinds.JOBSET,
        {
            "metadata": meta("set", labels=GANG_LABEL, annotations=MARKS),
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "w",
                        "replicas": 2,
                        "groupName": "default",
                        "template": {"metadata": {}, "spec": JOB_SPEC},
                    },
                    {
                        "name": "v",
                        "replicas": 1,
                        "template": {
                            "spec": {"parallelism": 1, "completions": 1, "template": {"spec": PLAIN_SPEC}}
                        },
                    },
                ],
                "network": {"enableDNSHostnames": True, "subdomain": "x"},
                "successPolicy": {"operator": "All", "targetReplicatedJobs": ["w"]},
                "failurePolicy": {
                    "maxRestarts": 1,
                    "rules": [
                        {"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
                    ],
                },
                "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
                "coordinator": {"replicatedJob": "w", "jobIndex": 0, "podIndex": 0},
                "ttlSecondsAfterFinished": 100,
            },
            "status": {
                "restarts": 0,
                "replicatedJobsStatus": [
                    {"name": "w", "ready": 1, "jobRestarts": [0, 0], "jobRestartsCountTowardsMax": [0]}
                ],
                "conditions": [{"type": "Suspended", "status": "False", "lastTransitionTime": TIME}],
            },
        },
    ),
    (
        kinds.JOBSET,
        {
            "metadata": meta("staged", labels=GANG_LABEL),
            "spec": {
                "replicatedJobs": [
                    {"name": "a", "template": {"spec": {"template": {"spec": PLAIN_SPEC}}}},
                    {
                        "name": "b",
                        "dependsOn": [{"name": "a", "status": "Ready"}],
                        "template": {"spec": {"template": {"spec": PLAIN_SPEC}}},
                    },
                ],
                "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            },
        },
    ),
    (
        kinds.JOB,
        {
            "metadata": meta(
                "set-w-0", owner=("jobset.x-k8s.io/v1alpha2", "JobSet", "set"), labels=JOB_LABELS
            ),
            "spec": JOB_SPEC,
            "status": {
                "active": 1,
                "startTime": TIME,
                "completedIndexes": "1",
                "failedIndexes": "",
                "succeeded": 1,
                "uncountedTerminatedPods": {"succeeded": ["u"], "failed": []},
                "conditions": [{"type": "Suspended", "status": "False", "lastTransitionTime": TIME}],
            },
        },
    ),
    (
        kinds.JOB,
        {"metadata": meta("job", labels=GANG_LABEL, annotations=MARKS), "spec": JOB_SPEC, "status": {}},
    ),
    (
        kinds.POD_GROUP_X,
        {
            "metadata": meta("x", annotations=MARKS),
            "spec": {"minMember": 1, "minResources": {"cpu": 1}, "scheduleTimeoutSeconds": 5},
            "status": {"phase": "Running", "running": 1, "scheduleStartTime": TIME},
        },
    ),
    (
        kinds.POD_GROUP_SIGS,
        {
            "metadata": meta("k", annotations={"gang.scheduling.koordinator.sh/groups": '["ns/k", "ns/l"]'}),
            "spec": {"minMember": 1},
        },
    ),
    (
        kinds.POD,
        {
            "metadata": meta(
                "set-w-0-0", owner=("batch/v1", "Job", "set-w-0"), labels=JOB_LABELS, annotations=INDEXED
            ),
            "spec": {**POD_SPEC, "nodeName": "n0"},
            "status": POD_STATUS,
        },
    ),
    (
        kinds.POD,
        {
            "metadata": meta("job-0", owner=("batch/v1", "Job", "job"), annotations={**INDEXED, **MARKS}),
            "spec": {**PLAIN_SPEC, "nodeName": "n0"},
            "status": POD_STATUS,
        },
    ),
    (
        kinds.POD,
        {
            "metadata": meta(
                "x-0",
                labels={"scheduling.x-k8s.io/pod-group": "x"},
                annotations={**MARKS, "muster.dev/gpu-share": "500", "muster.dev/gpu-device": "1"},
            ),
            "spec": POD_SPEC,
            "status": {"phase": "Pending"},
        },
    ),
    (
        kinds.POD,
        {
            "metadata": meta("k-0", labels={"pod-group.scheduling.sigs.k8s.io": "k"}),
            "spec": {**PLAIN_SPEC, "schedulingGates": [{"name": "g"}]},
            "status": {"phase": "Pending"},
        },
    ),
    (
        kinds.POD,
        {
            "metadata": meta(
                "l-0",
                annotations={
                    "gang.scheduling.koordinator.sh/name": "l",
                    "gang.scheduling.koordinator.sh/min-available": "1",
                    "gang.scheduling.koordinator.sh/groups": '["ns/k", "ns/l"]',
                },
            ),
            "spec": PLAIN_SPEC,
            "status": {"phase": "Pending"},
        },
    ),
    (
        kinds.POD,
        {
            "metadata": meta("bare", annotations=MARKS),
            "spec": {**POD_SPEC, "resourceClaims": [{"name": "c"}], "schedulingGroup": {"podGroupName": "p"}},
            "status": {"phase": "Pending"},
        },
    ),
    (
        kinds.GANG,
        {
            "metadata": meta("job-job"),
            "spec": {
                "queue": "q",
                "priority": 7,
                "minCount": 2,
                "podSets": [{"name": "main", "count": 2, "minCount": 2}],
                "source": {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-job"},
            },
            "status": {
                "phase": "Starting",
                "reason": {"code": "Fragmented", "message": "m"},
                "explanation": {"code": "x"},
                "expectedStart": TIME,
                "epoch": 1,
                "attempt": 1,
                "preemptions": [{"by": "ns/x", "at": TIME}],
            },
        },
    ),
    (
        kinds.GANG_PLAN,
        {
            "metadata": meta("job-job-1"),
            "spec": {"gang": "job-job", "epoch": 1, "attempt": 1, "blob": _blob()},
        },
    ),
    (
        kinds.CRON_JOB,
        {
            "metadata": meta("cron"),
            "spec": {
                "schedule": "0 2 * * *",
                "timeZone": "Europe/Berlin",
                "concurrencyPolicy": "Forbid",
                "startingDeadlineSeconds": 60,
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [{"name": "main", "command": ["true"]}],
                            }
                        }
                    }
                },
            },
        },
    ),
    (
        kinds.BATCH_JOB,
        {
            "metadata": meta("batch"),
            "spec": {
                "queue": "default",
                "minAvailable": 1,
                "policies": [{"event": "PodFailed", "action": "RestartJob"}],
                "tasks": {
                    "work": {
                        "replicas": 1,
                        "workload": {
                            "containers": {
                                "main": {
                                    "image": "x",
                                    "command": ["/bin/true"],
                                    "variables": {"A": "${metadata.name}"},
                                    "files": {"/f": {"content": "x", "mode": "0600"}},
                                    "resources": {"limits": {"cpu": "1", "memory": "1Mi"}},
                                    "security": {"runAsUser": 1},
                                }
                            }
                        },
                    }
                },
                "resources": {
                    "db": {
                        "type": "external-service",
                        "params": {"endpoints": {"a": "https://a.example.com"}},
                    }
                },
            },
        },
    ),
    (
        kinds.LATTICE_JOB,
        {"metadata": meta("lattice"), "spec": {"queue": "default", "tasks": {"work": {"replicas": 1}}}},
    ),
    (
        kinds.CEDAR_POLICY,
        {
            "metadata": {"name": "policy"},
            "spec": {"policies": "permit (principal, action, resource);", "enabled": True},
        },
    ),
    (
        kinds.TRUST_POLICY,
        {
            "metadata": {"name": "trust"},
            "spec": {
                "match": {"images": ["registry.example.com/**"]},
                "mode": "any",
                "action": "audit",
                "authorities": [{"name": "k", "key": {"secretRef": {"namespace": "ns", "name": "secret"}}}],
            },
        },
    ),
    (
        kinds.PREEMPTION,
        {
            "metadata": meta("preemption"),
            "spec": {
                "gang": "job-job",
                "job": "job",
                "queue": "q",
                "by": "ns/x",
                "at": TIME,
                "kind": "gang",
                "pods": 2,
                "lostResourceSeconds": 12.5,
                "gpuHoursLost": "1.5",
                "costLost": "3.00",
            },
        },
    ),
    (kinds.SERVICE, {"metadata": meta("svc"), "spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    (kinds.SECRET, {"metadata": meta("secret"), "data": {"a": "YQ=="}, "type": "x"}),
    (kinds.CONFIG_MAP, {"metadata": meta("config"), "data": {"a": "b"}, "binaryData": {"c": "YQ=="}}),
    (kinds.SERVICE_ACCOUNT, {"metadata": meta("account")}),
    (
        kinds.EVENT,
        {
            "metadata": meta("event"),
            "involvedObject": {"kind": "Pod", "name": "p"},
            "type": "Normal",
            "count": 1,
            "eventTime": TIME,
        },
    ),
    (
        kinds.LEASE,
        {
            "metadata": meta("lease"),
            "spec": {
                "holderIdentity": "h",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 1,
                "acquireTime": TIME,
                "renewTime": TIME,
            },
        },
    ),
]

"""Whatever a client sends, the registry answers with an object or an `ApiError`, never with anything else.

Sent are valid objects in which one place, anywhere, has been replaced by something that does not belong.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import kinds
from muster.embedded.api_errors import AnyKind
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import ApiError
from tests.embedded.objects import pod
from tests.spoiled import spoiled
from tests.tiers import examples

TIME: Final = "2026-01-01T00:00:00Z"
POD_SPEC: Final[Any] = {
    "restartPolicy": "Never",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "schedulingGates": [{"name": "a"}],
    "containers": [
        {
            "name": "main",
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
            ],
            "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 1}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
}
POD_STATUS: Final[Any] = {
    "phase": "Failed",
    "podIP": "127.1.0.9",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
    "containerStatuses": [
        {
            "name": "main",
            "restartCount": 1,
            "state": {
                "terminated": {"exitCode": 1, "reason": "Error", "startedAt": TIME, "finishedAt": TIME}
            },
            "lastState": {"running": {"startedAt": TIME}},
        }
    ],
}
META: Final[Any] = {
    "name": "x",
    "labels": {"app": "x"},
    "annotations": {"a": "b"},
    "finalizers": ["a.b/c"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}],
}
TEMPLATE: Final[Any] = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
JOB_SPEC: Final[Any] = {
    "completionMode": "Indexed",
    "completions": 2,
    "parallelism": 2,
    "template": TEMPLATE,
    "podFailurePolicy": {
        "rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], "containerName": "main"}},
        ]
    },
    "successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]},
}
VALID: Final[dict[AnyKind, Any]] = {
    kinds.POD: {"metadata": META, "spec": POD_SPEC, "status": POD_STATUS},
    kinds.NODE: {
        "metadata": META,
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": 1}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    },
    kinds.JOB: {
        "metadata": META,
        "spec": JOB_SPEC,
        "status": {"conditions": [{"type": "a", "status": "True"}]},
    },
    kinds.JOBSET: {
        "metadata": META,
        "spec": {
            "replicatedJobs": [{"name": "w", "replicas": 2, "template": {"metadata": {}, "spec": JOB_SPEC}}],
            "network": {"enableDNSHostnames": True, "subdomain": "x"},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["w"]},
            "failurePolicy": {"maxRestarts": 1, "rules": [{"name": "r", "action": "FailJobSet"}]},
            "coordinator": {"replicatedJob": "w"},
        },
    },
    kinds.PDB: {"metadata": META, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}},
    kinds.SECRET: {"metadata": META, "data": {"a": "YQ=="}, "stringData": {"b": "c"}, "type": "x"},
    kinds.CONFIG_MAP: {"metadata": META, "data": {"a": "b"}, "binaryData": {"c": "YQ=="}},
    kinds.PRIORITY_CLASS: {"metadata": META, "value": 5, "globalDefault": True, "preemptionPolicy": "Never"},
    kinds.SERVICE: {"metadata": META, "spec": {"clusterIP": "None", "selector": {"a": "b"}}},
    kinds.EVENT: {"metadata": META, "involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal"},
    kinds.POD_GROUP_X: {"metadata": META, "spec": {"minMember": 2, "minResources": {"cpu": 1}}},
    kinds.NAMESPACE: {"metadata": META},
}
BINDING: Final[Any] = {
    "metadata": {"name": "p", "annotations": {"a": "b"}},
    "target": {"kind": "Node", "name": "node-0"},
}
EVICTION: Final[Any] = {
    "metadata": {"name": "p"},
    "deleteOptions": {"gracePeriodSeconds": 1, "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan"},
}


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), kind=st.sampled_from(list(VALID)), text=st.text(max_size=12))
def test_anything(data: st.DataObject, kind: AnyKind, text: str) -> None:
    def choose(values: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    registry = Registry(Store(":memory:"))
    namespace = "default" if kind.namespaced else ""
    registry.create(kinds.NODE, "", {"metadata": {"name": "node-0"}})
    registry.create(kinds.POD, "default", pod("p", labels={"app": "x"}))
    bad = spoiled(VALID[kind], choose)
    other = spoiled(VALID[kind], choose)
    status = spoiled({"status": POD_STATUS}, choose)
    binding, eviction = spoiled(BINDING, choose), spoiled(EVICTION, choose)
    patch = spoiled([{"op": "add", "path": "/metadata/labels/a", "value": "b"}], choose)
    attempts: list[Callable[[], Any]] = [
        lambda: registry.create(kind, namespace, bad),
        lambda: registry.create(kind, namespace, VALID[kind]),
        lambda: registry.update(kind, namespace, "x", other),
        lambda: registry.patch(kind, namespace, "x", bad),
        lambda: registry.patch(kind, namespace, "x", bad, subresource="status"),
        lambda: registry.patch(kind, namespace, "x", patch),
        lambda: registry.bind("default", "p", binding),
        lambda: registry.patch(kinds.POD, "default", "p", status, subresource="status"),
        lambda: registry.evict("default", "p", eviction),
        lambda: registry.list(kinds.POD, labels=text),
        lambda: registry.list(kinds.POD, fields=text),
        lambda: registry.list(kinds.POD, token=text),
        lambda: registry.delete(kind, namespace, "x"),
    ]
    for attempt in attempts:
        with suppress(ApiError):
            attempt()
    for each in kinds.ALL:
        for stored in registry.list(each, fields="metadata.name!=nothing").items:
            assert isinstance(json.loads(stored), dict)
    registry.history.runs()
    registry.store.close()

"""What the API accepts, the node agent understands: it starts the pod, or says what it waits for.

Pods in which one place holds something that does not belong are written through the registry. Those that it
accepts go through everything that the agent reads of a pod before a process starts.
"""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Object
from muster.api.core_v1 import ConfigMap, Pod, Secret
from muster.embedded.node import status, volumes
from muster.embedded.node.environment import Lookup, Unavailable, caller_of, command_line, environment
from muster.embedded.node.fake_runtime import play
from muster.embedded.node.isolation import Files, Isolation, Setup
from muster.embedded.node.starts import cannot_start
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.clock import SystemClock
from muster.kube.errors import ApiError
from tests.spoiled import spoiled
from tests.tiers import examples

CPU: Final = {"resource": "limits.cpu", "divisor": "1m"}
PROBE: Final = {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 0}
RICH: Final[Object] = {
    "metadata": {
        "name": "p",
        "annotations": {"muster.dev/pretend": "run=30s,exit=1", "muster.dev/caller": '{"cwd": "/"}'},
    },
    "spec": {
        "activeDeadlineSeconds": 5,
        "terminationGracePeriodSeconds": 5,
        "hostname": "h",
        "subdomain": "s",
        "volumes": [
            {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "b", "hostPath": {"path": "/", "type": "Directory"}},
            {
                "name": "c",
                "configMap": {
                    "name": "c",
                    "defaultMode": 0o640,
                    "items": [{"key": "k", "path": "x/k", "mode": 0o600}],
                },
            },
            {"name": "d", "secret": {"secretName": "s", "optional": True}},
            {
                "name": "e",
                "downwardAPI": {
                    "items": [
                        {"path": "n", "fieldRef": {"fieldPath": "metadata.labels['a']"}},
                        {"path": "r", "resourceFieldRef": {"containerName": "main", **CPU}},
                    ]
                },
            },
            {
                "name": "f",
                "projected": {
                    "defaultMode": 0o400,
                    "sources": [
                        {"configMap": {"name": "c", "items": [{"key": "k", "path": "k"}]}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.uid"}}]
                            }
                        },
                    ],
                },
            },
        ],
        "containers": [
            {
                "name": "main",
                "command": ["sh", "-c", "$(A)"],
                "args": ["x"],
                "workingDir": "/",
                "resources": {"limits": {"cpu": "1"}},
                "ports": [{"name": "web", "containerPort": 80, "hostPort": 80}],
                "env": [
                    {"name": "A", "value": "$(HOSTNAME)"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "C", "valueFrom": {"resourceFieldRef": CPU}},
                    {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                    {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
                "volumeMounts": [
                    {"name": "a", "mountPath": "/a", "subPath": "x"},
                    {"name": "c", "mountPath": "/c", "subPathExpr": "$(A)", "readOnly": True},
                ],
                "livenessProbe": {"exec": {"command": ["true"]}, **PROBE},
                "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, **PROBE},
                "startupProbe": {"tcpSocket": {"port": 80}, **PROBE},
            }
        ],
    },
}
LOOKUP: Final = Lookup(
    {"c": ConfigMap(data={"k": "v"})}.get,
    {"s": Secret(data={"k": "djA="})}.get,
    {"cpu": "8"},
)
ISOLATIONS: Final = (Isolation(namespaces=True, user=True), Isolation(namespaces=False))


def submitted(obj: Any) -> Pod:
    """The pod as the agent gets it; `ApiError` if it is refused."""
    registry = Registry(Store(":memory:"))
    try:
        registry.create(kinds.NODE, "", {"metadata": {"name": "n"}})
        registry.create(kinds.POD, "default", obj)
        raw = registry.bind("default", "p", {"target": {"name": "n"}})
        registry.delete(kinds.POD, "default", "p")
        return msgspec.json.decode(raw, type=Pod)
    finally:
        registry.store.close()


def read(pod: Pod) -> None:
    """All that is read of a pod. Raises what the agent tells its user: `Unavailable`, or `OSError`."""
    status.deadline(pod, SystemClock().now())
    with suppress(ValueError):  # told in the pod's status
        play(pod.metadata.annotations).end(SystemClock().now())
    with TemporaryDirectory() as directory:
        caller = caller_of(pod)
        sources = volumes.prepare(pod, Path(directory, "v"), LOOKUP)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            env = environment(pod, container, caller, LOOKUP)
            argv, binds = command_line(container, env), volumes.binds(container, sources, env)
            working_dir = container.working_dir or caller.cwd
            cannot_start(argv, env, working_dir, binds)
            setup = Setup("h", working_dir, binds, (caller.cwd, caller.home), directory)
            for isolation in ISOLATIONS:
                command = isolation.command(setup, Files(Path(directory)), Path(directory, "gate"), argv)
                assert not any("\0" in word for word in command)


def test_the_pod_itself_is_understood() -> None:
    read(submitted(RICH))


@pytest.mark.parametrize("times", [1, 3])
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_every_pod_that_the_server_accepts_can_be_read_by_the_agent(times: int, data: st.DataObject) -> None:
    obj = spoiled(RICH, lambda options: data.draw(st.sampled_from(options)), times=times)
    with suppress(ApiError, Unavailable, OSError):
        read(submitted(obj))

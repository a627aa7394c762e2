"""Requests and limits that a Kubernetes API server takes, and those that it refuses."""

import copy
from typing import Any, Final

import pytest

from muster.api import kinds, rules
from muster.api.base import Object

GPU: Final = "nvidia.com/gpu"
PAGES: Final = "hugepages-2Mi"
#: (resources of a container, what is said of them; "" if they are accepted)
CONTAINERS: Final[list[tuple[Object, str]]] = [
    ({"limits": {GPU: 1}}, ""),
    ({"limits": {GPU: 2}, "requests": {GPU: "2"}}, ""),
    ({"limits": {GPU: "1000m"}}, ""),
    ({"requests": {GPU: 1}}, f"requests.{GPU}: Invalid value: 1: has no limit; write {GPU}: 1 under limits"),
    ({"requests": {GPU: 0}}, f"requests.{GPU}: Invalid value: 0: has no limit"),
    ({"requests": {GPU: 1}, "limits": {GPU: 2}}, "1: must be equal to nvidia.com/gpu limit of 2"),
    ({"requests": {GPU: 3}, "limits": {GPU: 2}}, f"requests.{GPU}: Invalid value: 3: must be equal to"),
    ({"limits": {GPU: "0.5"}}, f"limits.{GPU}: Invalid value: 0.5: must be an integer"),
    ({"limits": {"gpu": 1}}, 'limits.gpu: Invalid value: "gpu": is neither a standard resource'),
    ({"requests": {"pods": 1}}, 'requests.pods: Invalid value: "pods": is neither a standard resource'),
    ({"requests": {"storage": "1Gi"}}, "requests.storage: Invalid value"),
    ({"limits": {f"requests.{GPU}": 1}}, f"write {GPU}"),
    ({"requests": {"a.kubernetes.io/b": 1}}, ""),
    ({"requests": {"kubernetes.io/b": 1}}, ""),
    ({"requests": {"ephemeral-storage": "1Gi", "memory": "100m", "cpu": "1n"}}, ""),
    ({"requests": {"cpu": 2}, "limits": {"cpu": 1}}, "requests.cpu: Invalid value: 2: must be less than or"),
    ({"requests": {"cpu": -1}}, "requests.cpu: Invalid value: -1: must be greater than or equal to 0"),
    ({"limits": {PAGES: "4Mi", "cpu": 1}}, ""),
    ({"limits": {PAGES: "4Mi"}}, "Forbidden: a container that requests huge pages must also request cpu"),
    ({"limits": {PAGES: "3Mi", "cpu": 1}}, "3Mi: must be a positive multiple of hugepages-2Mi"),
    ({"requests": {PAGES: "2Mi", "cpu": 1}}, "requests.hugepages-2Mi: Invalid value: 2Mi: has no"),
    ({"requests": {PAGES: "2Mi"}, "limits": {PAGES: "4Mi", "cpu": 1}}, f"equal to {PAGES} limit of 4Mi"),
]  # fmt: skip
#: the same of a pod as a whole
PODS: Final[list[tuple[Object, str]]] = [
    ({"limits": {"cpu": 2}, "requests": {"memory": "1Gi"}}, ""),
    ({"limits": {PAGES: "2Mi", "cpu": 1}}, ""),
    ({"limits": {GPU: 1}}, f'limits.{GPU}: Unsupported value: "{GPU}": write it in a container'),
    ({"requests": {"cpu": 2}, "limits": {"cpu": 1}}, "requests.cpu: Invalid value: 2: must be less than"),
]  # fmt: skip


def pods() -> list[tuple[Object, str]]:
    """Pods, and what is said of them."""
    main = {"name": "main", "image": "none"}
    first, _ = CONTAINERS[3]
    return [
        *(({"containers": [{**main, "resources": each}]}, said) for each, said in CONTAINERS),
        (
            {"containers": [main], "initContainers": [{**main, "name": "i", "resources": first}]},
            "has no limit",
        ),
        *(({"containers": [main], "resources": each}, said) for each, said in PODS),
    ]


@pytest.mark.parametrize(("spec", "said"), pods())
def test_resources_of_a_pod_are_validated(spec: Any, said: str) -> None:  # Any: JSON
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": copy.deepcopy(spec),
    }
    errors = [str(error) for error in rules.validate(kinds.POD, rules.default(kinds.POD, pod), None)]
    assert [said in error for error in errors] == [True] * bool(said), errors

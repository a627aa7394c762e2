"""Small objects that tests write, and reading what comes back."""

import json
from typing import Any

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import NotFound


def pod(name: str = "p", **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "main"}]}}


def config(name: str = "c", **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


def read(body: bytes) -> Any:
    return json.loads(body)


def bound(registry: Registry, name: str = "p", phase: str = "", **metadata: Any) -> Any:
    """A pod on node-0."""
    registry.create(kinds.POD, "default", pod(name, **metadata))
    body = registry.bind("default", name, {"target": {"name": "node-0"}})
    if phase:
        status = {"status": {"phase": phase}}
        body = registry.patch(kinds.POD, "default", name, status, subresource="status")
    return read(body)


def gone(registry: Registry, kind: Any, name: str, namespace: str = "default") -> bool:
    try:
        registry.get(kind, namespace if kind.namespaced else "", name)
    except NotFound:
        return True
    return False

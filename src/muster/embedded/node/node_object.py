"""The Node object of a node that muster runs or simulates."""

from datetime import datetime

import msgspec

from muster import names
from muster.api.base import Object
from muster.api.core_v1 import Quantities
from muster.api.kinds import NODE
from muster.embedded.nodespec import NodeSpec


def node_object(spec: NodeSpec, now: datetime) -> Object:
    """The node, ready as of `now`."""
    time = msgspec.to_builtins(now)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "AgentReady",
        "message": "the node agent takes pods",
        "lastHeartbeatTime": time,
        "lastTransitionTime": time,
    }
    return {
        "apiVersion": NODE.api_version,
        "kind": NODE.kind,
        "metadata": {"name": spec.name, "labels": labels_of(spec)},
        "spec": {},
        "status": {
            "capacity": _texts(spec.resources),
            "allocatable": _texts(spec.resources),
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": spec.name},
            ],
        },
    }


def labels_of(spec: NodeSpec) -> dict[str, str]:
    labels = {"kubernetes.io/hostname": spec.name, "kubernetes.io/os": "linux", names.RUNTIME: spec.runtime}
    return labels | spec.labels


def _texts(resources: Quantities) -> dict[str, str]:
    return {name: str(amount) for name, amount in resources.items()}

"""What the embedded cluster does otherwise than Kubernetes, as docs/internals/embedded-cluster.md lists it.

Each is tried on both: what one of them prints must be what the page says of it.
"""

import json
from typing import Final, NamedTuple

from muster.api.base import Object
from tests.kubectl.cases import Kubectl, Run


class Said(NamedTuple):
    """What a command prints, a regular expression, and its exit code."""

    prints: str
    code: int = 0


class Difference(NamedTuple):
    name: str
    command: str
    embedded: Said
    kubernetes: Said
    #: what is created before
    given: Object | None = None
    #: the command's input
    stdin: Object | None = None
    #: what is deleted afterwards
    last: str = ""

    def check(self, kubectl: Kubectl, said: Said) -> None:
        if self.given is not None:
            kubectl.step(Run("create --validate=false -f -", ("created",), stdin=_written(self.given)))
        stdin = _written(self.stdin) if self.stdin is not None else ""
        try:
            kubectl.step(Run(self.command, (said.prints,), code=said.code, stdin=stdin, again=True))
        finally:
            if self.last:
                # by force: else a pod of a node that does not exist would stay until pods are collected
                kubectl.step(Run(f"delete --ignore-not-found --force --grace-period=0 {self.last}"))


def _written(body: Object) -> str:
    return json.dumps({"apiVersion": "v1", **body})


_CREATE: Final = "create --validate=false -f -"
_META: Final = {"name": "other"}
_CONFIG: Final = {"kind": "ConfigMap", "metadata": _META, "data": {"x": "1"}}
_NOWHERE: Final = {"kind": "Binding", "metadata": _META, "target": {"kind": "Node", "name": "nowhere"}}
_PATCH: Final = '{"metadata": {"labels": {"a": "b"}}, "status": {"reason": "R"}}'


def _pod(**container: object) -> Object:
    """A pod for which there is no node."""
    spec = {"nodeSelector": {"no": "node"}, "containers": [{"name": "c", **container}]}
    return {"kind": "Pod", "metadata": _META, "spec": spec}


DIFFERENCES: Final = (
    Difference(
        "a field of a wrong type",
        _CREATE,
        Said("is invalid: data", 1),
        Said("BadRequest", 1),
        stdin={**_CONFIG, "data": {"x": 1}},
    ),
    Difference(
        "a field that is not known",
        "get configmap other -o jsonpath=<{.unknown}>",
        Said("<1>"),
        Said("<>"),
        {**_CONFIG, "unknown": 1},
        last="configmap other",
    ),
    Difference(
        "managedFields before the first apply",
        "get configmap other --show-managed-fields -o jsonpath=<{.metadata.managedFields[*].operation}>",
        Said("<>"),
        Said("<Update>"),
        _CONFIG,
        last="configmap other",
    ),
    Difference(
        "a Service that translates ports",
        _CREATE,
        Said(r"Service \"other\" is invalid: spec.ports\[0\].targetPort: is 8080, and port is 80", 1),
        Said("service/other created"),
        stdin={"kind": "Service", "metadata": _META, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
        last="service other",
    ),
    Difference(
        "labels in a write of the status",
        f"patch pod other --subresource=status --type=merge -p '{_PATCH}' "
        "-o jsonpath=<{.metadata.labels.a}{.status.reason}>",
        Said("<R>"),
        Said("<bR>"),
        _pod(image="none"),
        last="pod other",
    ),
    Difference(
        "times",
        "get configmap other -o jsonpath=<{.metadata.creationTimestamp}>",
        Said(r":\d\d\.\d{6}Z>"),
        Said(r":\d\dZ>"),
        _CONFIG,
        last="configmap other",
    ),
    Difference(
        "a pod bound to a node that does not exist",
        "create --raw /api/v1/namespaces/default/pods/other/binding -f -",
        Said("nowhere", 1),
        Said("Success"),
        _pod(image="none"),
        _NOWHERE,
        "pod other",
    ),
    Difference(
        "a Service's address",
        "get service other -o jsonpath=<{.spec.clusterIP}>",
        Said("<(None)?>"),
        Said(r"<10\."),
        {"kind": "Service", "metadata": _META, "spec": {"ports": [{"port": 80}]}},
        last="service other",
    ),
    Difference(
        "a container without an image",
        _CREATE,
        Said("created"),
        Said(r"spec\.containers\[0\]\.image: Required", 1),
        stdin=_pod(command=["true"]),
        last="pod other",
    ),
    Difference(
        "a PodDisruptionBudget's status",
        "get pdb other -o jsonpath=<{.status}>",
        Said("<>"),
        Said("disruptionsAllowed"),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": _META,
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        },
        last="pdb other",
    ),
)

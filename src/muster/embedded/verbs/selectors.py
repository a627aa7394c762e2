"""Label and field selectors in Kubernetes' syntax.

Labels: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Fields: `a=b,c!=d` on the few fields below.
A selector is parsed once into a predicate on `Traits`, the part of an object that selectors read.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from muster.api import selectors
from muster.api.base import Kind, Struct
from muster.kube.errors import BadRequest


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}


class _Spec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    restart_policy: str = ""
    unschedulable: bool = False
    #: Any: of other kinds, which may have fields of these names, they are not read
    driver: Any = ""
    pool: Any = None


class _Status(Struct, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")


class _Reference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Traits(Struct, frozen=True):
    """The part of an object that selectors read."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()
    involved_object: _Reference = _Reference()
    type: str = ""
    reason: str = ""


Test = Callable[[Traits], bool]
_DECODER: Final = msgspec.json.Decoder(Traits)

_OF_ALL: Final[dict[str, Callable[[Traits], str]]] = {
    "metadata.name": lambda t: t.metadata.name,
    "metadata.namespace": lambda t: t.metadata.namespace,
}
_OF_KIND: Final[dict[str, dict[str, Callable[[Traits], str]]]] = {
    "Pod": {
        "spec.nodeName": lambda t: t.spec.node_name,
        "spec.schedulerName": lambda t: t.spec.scheduler_name,
        "spec.restartPolicy": lambda t: t.spec.restart_policy,
        "status.phase": lambda t: t.status.phase,
        "status.podIP": lambda t: t.status.pod_ip,
    },
    "Node": {"spec.unschedulable": lambda t: "true" if t.spec.unschedulable else "false"},
    "ResourceSlice": {
        "spec.nodeName": lambda t: t.spec.node_name,
        "spec.driver": lambda t: str(t.spec.driver),
        "spec.pool.name": lambda t: str(t.spec.pool["name"]),
    },
    "Namespace": {"status.phase": lambda t: t.status.phase},
    "Secret": {"type": lambda t: t.type},
    "Event": {
        "involvedObject.apiVersion": lambda t: t.involved_object.api_version,
        "involvedObject.kind": lambda t: t.involved_object.kind,
        "involvedObject.namespace": lambda t: t.involved_object.namespace,
        "involvedObject.name": lambda t: t.involved_object.name,
        "involvedObject.uid": lambda t: t.involved_object.uid,
        "type": lambda t: t.type,
        "reason": lambda t: t.reason,
    },
}


class Selector:
    """Both selectors of a request, for objects of one kind as encoded bytes."""

    def __init__(self, kind: "Kind[Any]", labels: str = "", fields: str = "") -> None:  # Any: of any type
        self._tests = [*_parse_fields(kind, fields), *_parse_labels(labels)]
        #: whether it matches everything
        self.everything = not self._tests

    def matches(self, body: bytes) -> bool:
        if self.everything:
            return True
        traits = _DECODER.decode(body)
        return all(test(traits) for test in self._tests)


def _parse_fields(kind: "Kind[Any]", text: str) -> list[Test]:
    known = _OF_ALL | _OF_KIND.get(kind.kind, {})
    tests: list[Test] = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([^=!\s]+)\s*(==|!=|=)\s*(.*?)\s*", term)
        if match is None:
            raise BadRequest(f"invalid field selector {term!r}: write field=value or field!=value")
        field, operator, value = match.groups()
        if field not in known:
            raise BadRequest(
                f"field label not supported: {field} (of {kind.plural}; known: {', '.join(sorted(known))})"
            )
        tests.append(_field_test(known[field], value, operator != "!="))
    return tests


def _field_test(read: Callable[[Traits], str], value: str, equal: bool) -> Test:
    return lambda traits: (read(traits) == value) is equal


def _parse_labels(text: str) -> list[Test]:
    try:
        selector = selectors.parse(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if not selector.match_expressions:
        return []
    return [lambda traits: selectors.matches(selector, traits.metadata.labels)]

"""Reads the facts that the cluster's own objects declare by annotations.

A namespace names its default store of secrets, and until when it is audited. The owner of a Service or of a
PersistentVolumeClaim lists the workloads that may use it. This list is the owner's half of an agreement; the
resource that a job declares is the other half.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from muster import names
from muster.api.base import Object
from muster.compiler.facts import Facts, SharedService, SharedVolume

#: Annotations from which facts are read.
READ: Final = frozenset(
    {names.AUDIT_UNTIL, names.SECRET_STORE, names.ALLOWED_CALLERS, names.ALLOWED_CONSUMERS}
)
#: Prefix of the claim of a volume with an id.
CLAIM: Final = "vol-"
#: Most workloads that one object admits.
_MOST: Final = 1_000


def declared(facts: Facts, objects: Iterable[Object]) -> Facts:
    """Returns the facts with what these Namespaces, Services and PersistentVolumeClaims declare.

    Objects of other kinds are ignored.
    """
    stores, audits = dict(facts.stores), dict(facts.audits)
    services, volumes = dict(facts.services), dict(facts.volumes)
    for each in objects:
        meta = _map(each.get("metadata"))
        name, namespace = str(meta.get("name", "")), str(meta.get("namespace") or "default")
        notes = _map(meta.get("annotations"))
        match each.get("kind"):
            case "Namespace":
                if names.AUDIT_UNTIL in notes:
                    audits[name] = str(notes[names.AUDIT_UNTIL])[:100]
                if store := notes.get(names.SECRET_STORE):
                    stores[name] = str(store)[:253]
            case "Service" if names.ALLOWED_CALLERS in notes:
                spec = _map(each.get("spec"))
                selector = {str(key): str(value) for key, value in _map(spec.get("selector")).items()}
                callers = _listed(notes[names.ALLOWED_CALLERS])
                services[namespace, name] = SharedService(callers, selector, _ports(spec))
            case "PersistentVolumeClaim" if names.ALLOWED_CONSUMERS in notes:
                shared = SharedVolume(name, _listed(notes[names.ALLOWED_CONSUMERS]))
                volumes[namespace, name.removeprefix(CLAIM)] = shared
    return replace(facts, stores=stores, audits=audits, services=services, volumes=volumes)


def _listed(text: object) -> tuple[str, ...]:
    return tuple(part for each in str(text).split(",")[:_MOST] if (part := each.strip()))


def _ports(spec: Mapping[str, Any]) -> dict[int, int | str]:  # Any: JSON
    ports: dict[int, int | str] = {}
    listed = spec.get("ports")
    for each in listed if isinstance(listed, list) else ():
        port = _map(each).get("port")
        target = _map(each).get("targetPort") or port
        tcp = _map(each).get("protocol", "TCP") == "TCP"
        if tcp and isinstance(port, int) and isinstance(target, int | str):
            ports[port] = target
    return ports


def _map(value: Any) -> Mapping[str, Any]:  # Any: JSON
    return value if isinstance(value, dict) else {}

"""Namespaces, nodes and services: defaults and validation."""

from typing import Any

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Finding
from muster.api.rules.metadata import labels, qualified


def default_namespace(obj: Object) -> Object:
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    obj.setdefault("status", {"phase": "Active"})
    return obj


def default_node(obj: Object) -> Object:
    obj["metadata"].setdefault("labels", {}).setdefault("kubernetes.io/hostname", obj["metadata"]["name"])
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])
    return obj


def validate_node(obj: Object, old: Object | None) -> list[Finding]:
    errors: list[Finding] = []
    for field in ("capacity", "allocatable"):
        for resource, amount in ((obj.get("status") or {}).get(field) or {}).items():
            errors += _capacity(field, resource, amount)
    for position, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        errors += qualified(taint["key"], ("spec", "taints", position, "key"))
        if taint.get("effect") not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            errors.append(
                Finding(
                    ("spec", "taints", position, "effect"),
                    'Unsupported value: supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
                )
            )
    return errors


def default_service(obj: Object) -> Object:
    """Services are headless: names resolve to the pods themselves, without load balancing."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    if spec["type"] == "ClusterIP":
        spec.setdefault("clusterIP", "None")
    return obj


def validate_service(obj: Object, old: Object | None) -> list[Finding]:
    errors = labels((obj.get("spec") or {}).get("selector") or {}, ("spec", "selector"))
    if old is not None and (obj.get("spec") or {}).get("clusterIP") != old["spec"].get("clusterIP"):
        errors.append(Finding(("spec", "clusterIP"), "Invalid value: field is immutable"))
    return errors


def _capacity(field: str, resource: str, amount: Any) -> list[Finding]:  # Any: from JSON
    try:
        value = quantity.parse(amount)
    except ValueError as error:
        return [Finding(("status", field, resource), f"Invalid value: {error}")]
    if value < 0:
        return [Finding(("status", field, resource), f"Invalid value: {amount}: must not be negative")]
    return []

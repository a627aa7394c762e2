"""Priority classes, disruption budgets, PodGroups, and the scheduler's own plans."""

from typing import Final

from muster.api import quantity
from muster.api.base import LabelSelector, Object
from muster.api.fields import Finding, InvalidObject, convert
from muster.api.rules.metadata import shown

#: Priorities above are for the classes that Kubernetes itself brings.
HIGHEST_PRIORITY: Final = 1_000_000_000
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def default_priority_class(obj: Object) -> Object:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    return obj


def validate_priority_class(obj: Object, old: Object | None) -> list[Finding]:
    errors: list[Finding] = []
    name, value = obj["metadata"]["name"], obj.get("value", 0)
    if name.startswith("system-"):
        errors.append(
            Finding(("metadata", "name"), "Forbidden: names that start with 'system-' belong to Kubernetes")
        )
    if not -(2**31) <= value <= HIGHEST_PRIORITY:
        errors.append(Finding(("value",), f"Forbidden: {value}: may not be more than {HIGHEST_PRIORITY}"))
    if obj.get("preemptionPolicy") not in ("Never", "PreemptLowerPriority"):
        errors.append(
            Finding(
                ("preemptionPolicy",),
                f"Unsupported value: {shown(str(obj.get('preemptionPolicy')))}: "
                'supported values: "Never", "PreemptLowerPriority"',
            )
        )
    if old is not None:
        errors += [
            Finding((field,), "Invalid value: field is immutable")
            for field in ("value", "preemptionPolicy")
            if obj.get(field) != old.get(field)
        ]
    return errors


def validate_budget(obj: Object, old: Object | None) -> list[Finding]:
    spec = obj.get("spec") or {}
    errors: list[Finding] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        errors.append(Finding(("spec",), "Invalid value: minAvailable and maxUnavailable cannot both be set"))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit()):
            errors.append(
                Finding(
                    ("spec", field), f"Invalid value: {shown(value)}: write a number or a percentage (50%)"
                )
            )
        elif isinstance(value, int) and value < 0:
            errors.append(Finding(("spec", field), f"Invalid value: {value}: must not be negative"))
    try:
        selector = convert(spec.get("selector") or {}, LabelSelector, ("spec", "selector"))
    except InvalidObject as error:
        return errors + error.errors
    for position, rule in enumerate(selector.match_expressions):
        if rule.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            errors.append(
                Finding(
                    ("spec", "selector", "matchExpressions", position, "operator"),
                    f"Unsupported value: {shown(rule.operator)}: "
                    'supported values: "In", "NotIn", "Exists", "DoesNotExist"',
                )
            )
    return errors


def validate_pod_group(obj: Object, old: Object | None) -> list[Finding]:
    least = (obj.get("spec") or {}).get("minMember")
    if least is not None and least < 0:
        return [Finding(("spec", "minMember"), f"Invalid value: {least}: must not be negative")]
    return []


def validate_kube_batch(obj: Object, old: Object | None) -> list[Finding]:
    """Quota is held for the total as it was admitted, so it stays as it is."""
    spec, before = obj.get("spec") or {}, (old.get("spec") or {}) if old is not None else None
    total = spec.get("totalResources")
    findings = [
        Finding(("spec", name), f"Invalid value: {spec[name]}: must not be negative")
        for name in ("minMember", "minMembers")
        if (spec.get(name) or 0) < 0
    ]
    for name, text in (total or {}).items():
        try:
            wrong = "must not be negative" if quantity.parse(text) < 0 else ""
        except ValueError as error:
            wrong = str(error)
        if wrong:
            findings.append(
                Finding(("spec", "totalResources", name), f"Invalid value: {shown(text)}: {wrong}")
            )
    if before is not None and before.get("totalResources") != total:
        findings.append(Finding(("spec", "totalResources"), "Invalid value: field is immutable"))
    return findings


def validate_plan(obj: Object, old: Object | None) -> list[Finding]:
    if old is not None and obj.get("spec") != old.get("spec"):
        return [Finding(("spec",), "Forbidden: a plan is created and deleted, never changed")]
    return []

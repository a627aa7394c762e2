"""ResourceQuotas: which resources and scopes one may state.

Source: kubernetes, pkg/apis/core/validation/validation.go (ValidateResourceQuotaSpec).
"""

from typing import Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Finding
from muster.api.rules.metadata import qualified, shown

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_NAMES: Final = frozenset(
    (
        *_COMPUTE,
        *(f"requests.{name}" for name in (*_COMPUTE, "storage")),
        *(f"limits.{name}" for name in _COMPUTE),
        *("pods", "configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"),
        *("secrets", "services", "services.loadbalancers", "services.nodeports"),
    )
)
_SCOPES: Final = (
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_IMMUTABLE: Final = ("scopes", "scopeSelector")


def validate(obj: Object, old: Object | None) -> list[Finding]:
    spec = obj.get("spec") or {}
    errors: list[Finding] = []
    for name, amount in (spec.get("hard") or {}).items():
        errors += _resource(name) or _amount(name, amount)
    errors += [
        Finding(("spec", "scopes"), f"Unsupported value: {shown(scope)}: write {', '.join(_SCOPES)}")
        for scope in spec.get("scopes") or []
        if scope not in _SCOPES
    ]
    before = (old or {}).get("spec") or {}
    errors += [
        Finding(("spec", field), "Invalid value: field is immutable")
        for field in _IMMUTABLE
        if old is not None and (spec.get(field) or None) != (before.get(field) or None)
    ]
    return errors


def _resource(name: str) -> list[Finding]:
    path = ("spec", "hard", name)
    if "/" in name:  # count/<plural>.<group>, or a resource of a domain
        return qualified(name, path)
    if name in _NAMES or name.removeprefix("requests.").startswith("hugepages-"):
        return []
    known = ", ".join(sorted(_NAMES))
    told = f"write count/<plural>.<group>, requests.<domain>/<resource>, or one of {known}"
    return [Finding(path, f"Invalid value: {shown(name)}: {told}")]


def _amount(name: str, amount: str) -> list[Finding]:
    if quantity.parse(amount) >= 0:
        return []
    return [Finding(("spec", "hard", name), f"Invalid value: {shown(amount)}: must not be negative")]

"""The fields of a Job that may change after its creation.

Most of the spec is fixed, since pods that exist already were made from it. Two exceptions: an Indexed Job
may change its completions together with its parallelism, and a Job that is suspended, with no pod left,
may change where its pods are to run. Source: KEP-2926, KEP-3715.
"""

import copy
from typing import Final

from muster.api.base import Object
from muster.api.fields import Finding

_FIXED: Final = (
    "completionMode",
    "selector",
    "manualSelector",
    "podFailurePolicy",
    "successPolicy",
    "backoffLimitPerIndex",
    "managedBy",
)
_OF_METADATA: Final = ("labels", "annotations")
_OF_SPEC: Final = ("nodeSelector", "tolerations", "schedulingGates")


def validate(obj: Object, old: Object) -> list[Finding]:
    new, before = obj.get("spec") or {}, old.get("spec") or {}
    errors = [
        Finding(("spec", field), "Invalid value: field is immutable")
        for field in _FIXED
        if new.get(field) != before.get(field)
    ]
    if new.get("completions") != before.get("completions") and not _elastic(new, before):
        errors.append(
            Finding(
                ("spec", "completions"),
                "Invalid value: field is immutable, except that an Indexed Job may change it together with "
                "parallelism, both to the same number",
            )
        )
    movable = may_move(old)
    if _fixed(new.get("template") or {}, movable) != _fixed(before.get("template") or {}, movable):
        which = ", ".join((*_OF_METADATA, *_OF_SPEC, "node affinity"))
        errors.append(
            Finding(
                ("spec", "template"),
                f"Invalid value: field is immutable, except for {which} while the Job is suspended and has "
                "no pods",
            )
        )
    return errors


def may_move(job: Object) -> bool:
    """Whether the Job is suspended and no pod is active: none was started, or all have been released."""
    if not (job.get("spec") or {}).get("suspend"):
        return False
    status = job.get("status") or {}
    if not status.get("startTime"):
        return True
    suspended = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or []
    )
    return suspended and not status.get("active")


def _elastic(new: Object, old: Object) -> bool:
    return new.get("completionMode") == "Indexed" and all(
        spec.get("completions") is not None and spec.get("completions") == spec.get("parallelism")
        for spec in (new, old)
    )


def _fixed(template: Object, movable: bool) -> Object:
    """The template without the fields that may change."""
    fixed = copy.deepcopy(template)
    if not movable:
        return fixed
    metadata, spec = fixed.get("metadata") or {}, fixed.get("spec") or {}
    for field in _OF_METADATA:
        metadata.pop(field, None)
    for field in _OF_SPEC:
        spec.pop(field, None)
    affinity = spec.get("affinity") or {}
    affinity.pop("nodeAffinity", None)
    if not affinity:
        spec.pop("affinity", None)
    return fixed

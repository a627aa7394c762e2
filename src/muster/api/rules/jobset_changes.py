"""What of a JobSet may change: `suspend`, `coordinator` and the time it is kept.

While it is suspended, before or after the change, the scheduling directives of its pod templates may
change too, so that what admits it can say where it may run. Policies and the network are compared only if
both states have them: JobSet's own rules are transitions (CEL `self == oldSelf`), which do not look at a
field that is added or removed.
"""

import copy
from typing import Final

from muster.api.base import Object
from muster.api.fields import Finding

_TRANSITIONS: Final = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")
_METADATA: Final = ("labels", "annotations")
_DIRECTIVES: Final = ("nodeSelector", "tolerations", "schedulingGates")


def validate(obj: Object, old: Object) -> list[Finding]:
    spec, before = obj.get("spec") or {}, old.get("spec") or {}
    errors = []
    if spec.get("managedBy") != before.get("managedBy"):
        errors.append(Finding(("spec", "managedBy"), "Invalid value: field is immutable"))
    for field in _TRANSITIONS:
        if field in spec and field in before and spec[field] != before[field]:
            errors.append(Finding(("spec", field), "Invalid value: field is immutable"))
    suspended = bool(spec.get("suspend") or before.get("suspend"))
    if _fixed(spec, suspended) != _fixed(before, suspended):
        message = "Invalid value: field is immutable"
        if suspended:
            message += f", except in the pod templates {', '.join((*_METADATA, *_DIRECTIVES))}"
        errors.append(Finding(("spec", "replicatedJobs"), message))
    return errors


def _fixed(spec: Object, suspended: bool) -> list[Object]:
    """The replicatedJobs, without the fields that may change."""
    fixed: list[Object] = copy.deepcopy(spec.get("replicatedJobs") or [])
    if suspended:
        for replicated in fixed:
            job = (replicated.get("template") or {}).get("spec") or {}
            template = job.get("template") or {}
            metadata = template.setdefault("metadata", {})
            pod = template.get("spec") or {}
            for parent, fields in ((metadata, _METADATA), (pod, _DIRECTIVES)):
                for field in fields:
                    parent.pop(field, None)
    return fixed

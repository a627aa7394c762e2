"""Applies the API server's rules while errors can still name the file, rather than as a refusal later."""

from copy import deepcopy
from typing import Final

from muster.api import kinds, rules
from muster.api.batch_v1 import JOB_NAME, LEGACY_JOB_NAME
from muster.api.fields import Finding
from muster.workloads import dns
from muster.workloads.kubernetes.objects import Entry

#: Placeholder for the uid that an object gets when it is created; some defaults are derived from it.
_UID: Final = "00000000-0000-0000-0000-000000000000"
#: Labels that are set to a Job's name.
_NAMES: Final = [("spec", "template", "metadata", "labels", key) for key in (JOB_NAME, LEGACY_JOB_NAME)]


def broken(entry: Entry) -> list[Finding]:
    """Errors for which the API server would refuse the object. The object's types must be right."""
    completed = deepcopy(entry.object)
    completed["metadata"]["uid"] = _UID
    errors = rules.type_(entry.kind, completed) or rules.validate(
        entry.kind, rules.default(entry.kind, completed), None
    )
    if entry.kind is kinds.JOB and len(entry.name) > dns.LABEL:
        message = (
            f"has {len(entry.name)} characters; the Job's pods have it as a label, so at most {dns.LABEL}"
        )
        errors = [error for error in errors if error.path not in _NAMES]
        errors.insert(0, Finding(("metadata", "name"), message))
    return [entry.report(error.path, error.message) for error in errors]

"""The API server's rules, applied while the file can still be named: better here than as a refusal later."""

from copy import deepcopy
from typing import Final

from muster.api import kinds, rules
from muster.api.batch_v1 import JOB_NAME, LEGACY_JOB_NAME
from muster.api.fields import FieldError
from muster.workloads import dns
from muster.workloads.findings import Finding
from muster.workloads.kubernetes.objects import Entry

#: Stands for the uid that an object gets when it is created; some defaults are made from it.
_UID: Final = "00000000-0000-0000-0000-000000000000"
#: Labels that a Job's name becomes.
_NAMES: Final = [("spec", "template", "metadata", "labels", key) for key in (JOB_NAME, LEGACY_JOB_NAME)]


def broken(entry: Entry) -> list[Finding]:
    """What the API server would refuse the object for. Its types are right."""
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
        errors.insert(0, FieldError(("metadata", "name"), message))
    return [entry.report(error.path, error.message) for error in errors]

"""The API server's rules, applied while the file can still be named: better here than as a refusal later."""

from copy import deepcopy
from typing import Final

from muster.api import rules
from muster.workloads.findings import Finding
from muster.workloads.kubernetes.objects import Entry

#: Stands for the uid that an object gets when it is created; some defaults are made from it.
_UID: Final = "00000000-0000-0000-0000-000000000000"


def broken(entry: Entry) -> list[Finding]:
    """What the API server would refuse the object for. Its types are right."""
    completed = deepcopy(entry.object)
    completed["metadata"]["uid"] = _UID
    errors = rules.type_(entry.kind, completed) or rules.validate(
        entry.kind, rules.default(entry.kind, completed), None
    )
    return [entry.report(error.path, error.message) for error in errors]

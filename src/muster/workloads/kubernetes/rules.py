"""The API server's rules, applied while the file can still be named: better here than as a refusal later."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.fields import FieldError
from muster.api.rules import cluster, jobset, metadata, pod, scheduling, stored
from muster.workloads.findings import Finding
from muster.workloads.kubernetes.objects import Entry

_Default = Callable[[Object], Object]
_Validate = Callable[[Object, Object | None], list[FieldError]]

#: Any, because a table of kinds holds kinds of many types.
_RULES: Final[dict[Kind[Any], tuple[_Default | None, _Validate]]] = {
    kinds.POD: (pod.default, pod.validate),
    kinds.JOBSET: (jobset.default, jobset.validate),
    kinds.SERVICE: (cluster.default_service, cluster.validate_service),
    kinds.CONFIG_MAP: (None, stored.validate_config_map),
    kinds.SECRET: (stored.default_secret, stored.validate_secret),
    kinds.PRIORITY_CLASS: (scheduling.default_priority_class, scheduling.validate_priority_class),
    kinds.PDB: (None, scheduling.validate_budget),
    kinds.POD_GROUP_X: (None, scheduling.validate_pod_group),
    kinds.POD_GROUP_SIGS: (None, scheduling.validate_pod_group),
}


def broken(entry: Entry) -> list[Finding]:
    """What the API server would refuse the object for. Its types are right."""
    completed = deepcopy(entry.object)
    default, validate = _RULES.get(entry.kind, (None, _nothing))
    if default is not None:
        completed = default(completed)
    errors = [*metadata.validate(completed, None), *validate(completed, None)]
    return [entry.report(error.path, error.message) for error in errors]


def _nothing(obj: Object, old: Object | None) -> list[FieldError]:
    return []

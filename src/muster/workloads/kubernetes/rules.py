"""The API server's rules, applied while the file can still be named: better here than as a refusal later."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.fields import FieldError, Path
from muster.api.rules import cluster, job, jobset, metadata, pod, scheduling, stored
from muster.workloads.findings import Finding
from muster.workloads.kubernetes.objects import Entry

_Default = Callable[[Object], Object]
_Validate = Callable[[Object, Object | None], list[FieldError]]

#: Any, because a table of kinds holds kinds of many types.
_RULES: Final[dict[Kind[Any], tuple[_Default | None, _Validate]]] = {
    kinds.POD: (pod.default, pod.validate),
    kinds.JOB: (job.default, job.validate),
    kinds.JOBSET: (jobset.default, jobset.validate),
    kinds.SERVICE: (cluster.default_service, cluster.validate_service),
    kinds.CONFIG_MAP: (None, stored.validate_config_map),
    kinds.SECRET: (stored.default_secret, stored.validate_secret),
    kinds.PRIORITY_CLASS: (scheduling.default_priority_class, scheduling.validate_priority_class),
    kinds.PDB: (None, scheduling.validate_budget),
    kinds.POD_GROUP_X: (None, scheduling.validate_pod_group),
    kinds.POD_GROUP_SIGS: (None, scheduling.validate_pod_group),
}


#: Stands for the uid that an object gets when it is created; some defaults are made from it.
_UID: Final = "00000000-0000-0000-0000-000000000000"


def broken(entry: Entry) -> list[Finding]:
    """What the API server would refuse the object for, now or when its Jobs are made. Its types are right."""
    completed = deepcopy(entry.object)
    completed["metadata"]["uid"] = _UID
    default, validate = _RULES.get(entry.kind, (None, _nothing))
    if default is not None:
        completed = default(completed)
    errors = [*metadata.validate(completed, None), *validate(completed, None)]
    if entry.kind is kinds.JOBSET and not errors:
        errors = of_its_jobs(completed)
    return [entry.report(error.path, error.message) for error in errors]


def of_its_jobs(completed: Object) -> list[FieldError]:
    """What the Jobs of a JobSet that has its defaults would be refused for."""
    errors: list[FieldError] = []
    for index, replicated in enumerate(completed["spec"].get("replicatedJobs", [])):
        at: Path = ("spec", "replicatedJobs", index, "template")
        name = f"{completed['metadata']['name']}-{replicated['name']}-0"
        template = {"metadata": {"name": name, "uid": _UID}, "spec": deepcopy(replicated["template"]["spec"])}
        for error in job.validate(job.default(template), None):
            errors.append(FieldError((*at, *error.path), error.message))
    return errors


def _nothing(obj: Object, old: Object | None) -> list[FieldError]:
    return []

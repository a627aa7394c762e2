"""Defaults and validation per kind, as an API server applies them: one module per subject.

`types` comes first: it knows the types of all fields, and brings quantities into their canonical form.
Each other has `default(obj) -> obj`, which may complete the object in place, and `validate(obj, old)`, where
`old` is the state before an update. Both get JSON that has been read as the kind's struct before, so types
are right; only values are left to check. `RULES` says which belong to which kind: the embedded cluster
applies them to every write, and a job file is held against them before it is handed in.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from muster.api import groups, kinds
from muster.api.base import Kind, Object
from muster.api.fields import Finding
from muster.api.rules import (
    claims,
    cluster,
    cron,
    devices,
    job,
    jobset,
    metadata,
    pod,
    podgroup,
    queue,
    quota,
    scheduling,
    stored,
    types,
)


class Rules(NamedTuple):
    """The rules of one kind. An object for which it states no rule is left unchanged and accepted."""

    default: Callable[[Object], Object] = lambda obj: obj
    validate: Callable[[Object, Object | None], list[Finding]] = lambda obj, old: []
    #: completes, in place, and checks what a write of the status makes of the object
    status: Callable[[Object, Object], list[Finding]] = lambda obj, old: []


#: Any, because a table of kinds holds kinds of many types.
RULES: Final[dict[Kind[Any], Rules]] = {
    kinds.NAMESPACE: Rules(cluster.default_namespace),
    kinds.NODE: Rules(cluster.default_node, cluster.validate_node),
    kinds.POD: Rules(pod.default, pod.validate),
    kinds.SERVICE: Rules(cluster.default_service, cluster.validate_service),
    kinds.CONFIG_MAP: Rules(validate=stored.validate_config_map),
    kinds.SECRET: Rules(stored.default_secret, stored.validate_secret),
    kinds.RESOURCE_QUOTA: Rules(validate=quota.validate),
    kinds.PRIORITY_CLASS: Rules(scheduling.default_priority_class, scheduling.validate_priority_class),
    kinds.PDB: Rules(validate=scheduling.validate_budget),
    kinds.JOB: Rules(job.default, job.validate),
    kinds.CRON_JOB: Rules(cron.default, cron.validate),
    kinds.JOBSET: Rules(jobset.default, jobset.validate),
    **dict.fromkeys(kinds.POD_GROUPS, Rules(validate=scheduling.validate_pod_group)),
    **dict.fromkeys(
        (groups.INCUBATOR.kind, groups.SIGS_DEV.kind), Rules(validate=scheduling.validate_kube_batch)
    ),
    groups.NATIVE.kind: Rules(podgroup.default_pod_group, podgroup.validate_pod_group),
    kinds.WORKLOAD: Rules(validate=podgroup.validate_workload),
    kinds.DEVICE_CLASS: Rules(validate=devices.validate_class),
    kinds.RESOURCE_SLICE: Rules(devices.default_slice, devices.validate_slice),
    kinds.RESOURCE_CLAIM: Rules(claims.default_claim, claims.validate_claim, claims.update_status),
    kinds.RESOURCE_CLAIM_TEMPLATE: Rules(claims.default_template, claims.validate_template),
    kinds.QUEUE: Rules(queue.default, queue.validate),
    kinds.GANG_PLAN: Rules(validate=scheduling.validate_plan),
}
_NONE: Final = Rules()


def type_(kind: Kind[Any], obj: Object) -> list[Finding]:
    """Gives each field the type that Kubernetes has, in place; returns those that cannot have it."""
    return types.apply(kind, obj)


def default(kind: Kind[Any], obj: Object) -> Object:
    """`obj` with its kind's defaults, completed in place."""
    return RULES.get(kind, _NONE).default(obj)


def validate(kind: Kind[Any], obj: Object, old: Object | None) -> list[Finding]:
    """Every invalid field, by the rules of the metadata and of the kind. `obj` has its defaults."""
    return [*metadata.validate(obj, old), *RULES.get(kind, _NONE).validate(obj, old)]


def validate_status(kind: Kind[Any], obj: Object, old: Object) -> list[Finding]:
    """Every field of the status that is invalid beside the status before. Completes it, in place."""
    return RULES.get(kind, _NONE).status(obj, old)

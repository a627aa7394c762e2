"""Kubernetes' own PodGroups and Workloads, and what a Job says of its group in `spec.scheduling`.

Source: kubernetes, the tags of staging/src/k8s.io/api/scheduling/v1beta1/types.go, and
pkg/apis/scheduling/validation/validation.go.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.api.base import Object
from muster.api.fields import Finding, InvalidObject, Path, convert
from muster.api.rules.metadata import label, qualified, shown, subdomain
from muster.api.rules.scheduling import HIGHEST_PRIORITY
from muster.api.scheduling_v1beta1 import JobScheduling

MOST_TEMPLATES: Final = 8
_MOST_CLAIMS: Final = 4
_POLICIES: Final = ("Never", "PreemptLowerPriority")
#: Fields that stay as they are, besides the sort of policy.
_IMMUTABLE: Final = (
    *("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority"),
    *("preemptionPolicy", "workloadRef", "parentCompositePodGroupName"),
)


def default_pod_group(obj: Object) -> Object:
    spec = obj.get("spec")
    if isinstance(spec, dict):
        spec.setdefault("disruptionMode", {"single": {}})
    return obj


def validate_pod_group(obj: Object, old: Object | None) -> list[Finding]:
    return [*_group(obj.get("spec") or {}, (old.get("spec") or {}) if old is not None else None, ("spec",))]


def validate_workload(obj: Object, old: Object | None) -> list[Finding]:
    spec, errors = obj.get("spec") or {}, list[Finding]()
    before = (old.get("spec") or {}) if old is not None else None
    if before is not None and spec.get("controllerRef") != before.get("controllerRef"):
        errors.append(_frozen(("spec", "controllerRef")))
    templates = spec.get("podGroupTemplates") or []
    at = ("spec", "podGroupTemplates")
    if spec.get("compositePodGroupTemplates"):
        told = "Forbidden: composite groups are not supported; write podGroupTemplates"
        errors.append(Finding(("spec", "compositePodGroupTemplates"), told))
    elif not templates:
        errors.append(Finding(at, "Required value: write one template for each sort of pods"))
    if len(templates) > MOST_TEMPLATES:
        errors.append(Finding(at, f"Too many: {len(templates)}: must have at most {MOST_TEMPLATES} items"))
    names = [each.get("name", "") for each in templates]
    known = {each.get("name"): each for each in (before or {}).get("podGroupTemplates") or []}
    if before is not None and set(names) != set(known):
        errors.append(Finding(at, "Invalid value: templates can be neither added nor removed"))
    for number, each in enumerate(templates[:MOST_TEMPLATES]):
        errors += label(names[number], (*at, number, "name"))
        if names[number] in names[:number]:
            errors.append(Finding((*at, number, "name"), f"Duplicate value: {shown(names[number])}"))
        errors += _group(each, known.get(names[number]), (*at, number))
    ranks = [(each.get("priorityClassName"), each.get("priority")) for each in templates]
    if any(rank != ranks[0] for rank in ranks):
        errors.append(Finding(("spec",), "Invalid value: detected multiple priority configurations"))
    return errors


def validate_job(spec: Object, old: Object | None, at: Path) -> list[Finding]:
    """Checks `spec.scheduling` of a Job. `spec`, `old`: of the Job, now and before an update."""
    wanted = spec.get("scheduling")
    before = old.get("scheduling") if old is not None else None
    if old is not None and (wanted is None) != (before is None):
        return [Finding(at, "Invalid value: cannot be added or removed")]
    if wanted is None:
        return []
    try:
        convert(wanted, JobScheduling, at)
    except InvalidObject as error:
        return error.errors
    errors = [*_group(wanted, before if old is not None else None, at, of_job=True)]
    least = ((wanted.get("schedulingPolicy") or {}).get("gang") or {}).get("minCount")
    most = spec.get("parallelism", 1)
    if isinstance(least, int) and least > most:
        told = f"Invalid value: {least}: must not exceed parallelism ({most})"
        errors.append(Finding((*at, "schedulingPolicy", "gang", "minCount"), told))
    return errors


def _group(spec: Object, old: Object | None, at: Path, *, of_job: bool = False) -> Iterator[Finding]:
    policy = spec.get("schedulingPolicy")
    if policy is not None or not of_job:
        yield from _policy(policy or {}, (*at, "schedulingPolicy"), of_job=of_job)
    for number, each in enumerate(_topology(spec)):
        where = (*at, "schedulingConstraints", "topology", number)
        if number:
            yield Finding(where, "Too many: must have at most 1 item")
        else:
            yield from qualified(each.get("key", ""), (*where, "key"))
    claims = spec.get("resourceClaims") or []
    if len(claims) > _MOST_CLAIMS:
        yield Finding(
            (*at, "resourceClaims"), f"Too many: {len(claims)}: must have at most {_MOST_CLAIMS} items"
        )
    mode = spec.get("disruptionMode")
    if mode is not None and len(mode.keys() & {"single", "all"}) != 1:
        yield Finding((*at, "disruptionMode"), "Invalid value: must specify one of: `single`, `all`")
    if (name := spec.get("priorityClassName")) and not of_job:
        yield from subdomain(name, (*at, "priorityClassName"))
    if spec.get("priority", 0) > HIGHEST_PRIORITY:
        told = f"Invalid value: {spec['priority']}: must be less than or equal to {HIGHEST_PRIORITY}"
        yield Finding((*at, "priority"), told)
    if spec.get("preemptionPolicy", _POLICIES[0]) not in _POLICIES:
        told = f'Unsupported value: {shown(str(spec["preemptionPolicy"]))}: supported values: "Never", '
        yield Finding((*at, "preemptionPolicy"), f'{told}"PreemptLowerPriority"')
    if spec.get("parentCompositePodGroupName"):
        yield Finding(
            (*at, "parentCompositePodGroupName"),
            "Forbidden: CompositePodGroups are not supported; leave it out",
        )
    if old is not None:
        yield from _changes(spec, old, at)


def _policy(policy: Object, at: Path, *, of_job: bool) -> Iterator[Finding]:
    if len(policy.keys() & {"basic", "gang"}) != 1:
        yield Finding(at, "Invalid value: must specify one of: `basic`, `gang`")
    if "gang" not in policy:
        return
    least = policy["gang"].get("minCount")
    if least is None and not of_job:
        yield Finding((*at, "gang", "minCount"), "Required value: write how many pods must run together")
    elif least is not None and least < 1:
        yield Finding(
            (*at, "gang", "minCount"), f"Invalid value: {least}: must be greater than or equal to 1"
        )


def _changes(spec: Object, old: Object, at: Path) -> Iterator[Finding]:
    """Yields what may not change. Of a policy only the minimum of a gang may."""
    sorts = [(each.get("schedulingPolicy") or {}).keys() & {"basic", "gang"} for each in (spec, old)]
    if sorts[0] != sorts[1]:
        told = "Invalid value: the policy is immutable; only gang.minCount may be updated"
        yield Finding((*at, "schedulingPolicy"), told)
    for field in _IMMUTABLE:
        if spec.get(field) != old.get(field):
            yield _frozen((*at, field))


def _frozen(path: Path) -> Finding:
    return Finding(path, "Invalid value: field is immutable")


def _topology(spec: Object) -> list[Any]:  # Any: a user's JSON
    return (spec.get("schedulingConstraints") or {}).get("topology") or []

"""Jobs and JobSets that are gangs by a mark of their own, and the groups that say the same of their pods.

A gang that is marked becomes a group by its stages and its marks. The way back: the Job or JobSet whose pods
are all of a group gets the mark, and pods without an owner become a JobSet.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from muster import names
from muster.api import groups, kinds
from muster.api.base import Object, at, without_nulls
from muster.api.fields import Finding, Severity, convert
from muster.api.groups import Asked
from muster.api.jobset_v1alpha2 import JobSetSpec
from muster.workloads import annotate
from muster.workloads.convert.pod_groups import OF_GANG
from muster.workloads.convert.units import Member, Unit

_JOBS: Final = (kinds.JOB, kinds.JOBSET)
_WHERE: Final = ("labels", "annotations")


def is_marked(unit: Unit, namespaces: frozenset[str]) -> bool:
    """Whether a Job or JobSet is a gang by its own mark, or by that of its namespace."""
    if not is_job(unit):
        return False
    mode = annotate.mode_of(unit.object)
    return mode == "gang" or (mode is None and unit.namespace in namespaces)


def scheduled(unit: Unit) -> Object:
    """What a Job says of the gang that Kubernetes' controller makes of its pods; {} if nothing."""
    found = at(unit.object, "spec", "scheduling") if unit.kind is kinds.JOB else {}
    return found if "gang" in at(found, "schedulingPolicy") else {}


def scheduled_group(unit: Unit, namespace: str, count: int) -> Object:
    """The PodGroup that the controller makes of a scheduled Job. `count`: its pods, all of which it needs
    unless its minimum is stated."""
    rules = scheduled(unit)
    policy = {"gang": {"minCount": count, **rules["schedulingPolicy"]["gang"]}}
    group = groups.NATIVE.written(unit.name, namespace, Asked(minimum=count, field=""))
    group["spec"] = {**rules, "schedulingPolicy": policy}
    return group


def take_marks(owner: Object) -> Object:
    """Removes the marks of a gang from an object, and returns them as labels and annotations."""
    taken: Object = {}
    for where in _WHERE:
        values = at(owner, "metadata", where)
        for key in [key for key in values if key in OF_GANG]:
            taken.setdefault(where, {})[key] = values.pop(key)
        values.pop(names.GANG, None)
        if where in at(owner, "metadata") and not values:
            del owner["metadata"][where]
    return taken


def mark(owner: Object, group: Object) -> list[str]:
    """Makes a Job or JobSet a gang, with the marks of its group. Returns the other keys, which are lost."""
    metadata, lost = owner.setdefault("metadata", {}), []
    for where in _WHERE:
        for key, value in at(group, "metadata", where).items():
            if key in OF_GANG:
                metadata.setdefault(where, {})[key] = value
            elif at(metadata, where).get(key) != value:
                lost.append(key)
    at(metadata, "annotations").pop(names.GANG, None)
    metadata.setdefault("labels", {})[names.GANG] = "true"
    return lost


def is_job(unit: Unit) -> bool:
    return unit.kind in _JOBS


def staged(unit: Unit) -> bool:
    return unit.kind is kinds.JOBSET and convert(unit.object["spec"], JobSetSpec).staged


def stages(unit: Unit, found: Sequence[Member]) -> list[tuple[str, list[Member]]]:
    """The gangs of a Job or JobSet that is marked: the name and the pods of each."""
    if not staged(unit):
        return [(unit.name, [*found])]
    every = unit.object["spec"]["replicatedJobs"]
    return [(f"{unit.name}-{job['name']}", [member]) for job, member in zip(every, found, strict=True)]


def jobset(name: str, unit: Unit, found: Sequence[Member], told: list[Finding]) -> Object:
    """A JobSet of pods without an owner: a replicated job for each sort of them."""
    sorts: dict[str, tuple[Object, list[Unit]]] = {}
    for member in found:
        pod = without_nulls(member.template)
        metadata = {key: pod["metadata"][key] for key in _WHERE if pod["metadata"].get(key)}
        template: Object = {**({"metadata": metadata} if metadata else {}), "spec": pod["spec"]}
        sorts.setdefault(repr(template), (template, []))[1].append(member.unit)
    kind, taken = kinds.JOBSET, Counter[str]()
    jobs = []
    for template, pods in sorts.values():
        if (policy := template["spec"].get("restartPolicy", "Always")) not in ("Never", "OnFailure"):
            template["spec"]["restartPolicy"] = "OnFailure"
            lost = f"is {policy}, which the pods of a JobSet cannot have; it is OnFailure now"
            told.append(pods[0].report(("spec", "restartPolicy"), lost, Severity.WARNING))
        called = pods[0].name.rstrip("0123456789").rstrip("-.").replace(".", "-")[:40].strip("-") or "pods"
        taken[called] += 1
        if taken[called] > 1:
            called = f"{called}-{taken[called]}"
        count = {"parallelism": len(pods), "completions": len(pods), "completionMode": "Indexed"}
        jobs.append({"name": called, "replicas": 1, "template": {"spec": {**count, "template": template}}})
        shown = pods[0].name if len(pods) == 1 else f"{pods[0].name} to {pods[-1].name}"
        renamed = f"is lost: {shown} are called {name}-{called}-0-INDEX in the JobSet {name}"
        told.append(pods[0].report(("metadata", "name"), renamed, Severity.WARNING))
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    namespace = at(unit.object, "metadata").get("namespace")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {**head, "metadata": metadata, "spec": {"replicatedJobs": jobs}}

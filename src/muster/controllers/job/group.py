"""The PodGroup of a Job with `spec.scheduling`, and the Workload that it is made from.

As Kubernetes' Job controller does behind the gate WorkloadWithJob, for Jobs that nothing controls and whose
pods name no group themselves. A Job without the field gets neither: its group would be *basic*, and change
nothing. Source: kubernetes, pkg/controller/job/job_scheduling_manager.go; KEP-5547.
"""

from typing import Final

from muster.api import groups, kinds
from muster.api.base import Object, at, controls, owner
from muster.api.batch_v1 import Job
from muster.api.scheduling_v1beta1 import PodGroup
from muster.controllers.job.pods import group_name
from muster.effects import Create, Effect, Patch

_KIND: Final = groups.NATIVE.kind
#: What the field has in common with the templates of a Workload.
_SAME: Final = ("schedulingConstraints", "disruptionMode", "resourceClaims")


def ensure(job: Job, group: PodGroup | None) -> list[Effect]:
    """Returns what makes the Job's group, or gives that which exists the minimum of now."""
    if (name := group_name(job)) is None:
        return []
    meta, rules = job.metadata, _rules(job)
    template = f"{meta.name}-pgt-0"
    least = at(rules, "schedulingPolicy", "gang").get("minCount")
    if group is not None:
        if not controls(kinds.JOB, job, group):
            return []  # another's, which has the name
        gang = group.spec.scheduling_policy.gang
        if least is None or gang is None or gang.min_count == least:
            return []
        policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
        templates = {"podGroupTemplates": [{"name": template, **rules}]}
        return [
            Patch(kinds.WORKLOAD, meta.namespace, name, {"spec": templates}),
            Patch(_KIND, meta.namespace, name, {"spec": policy}),
        ]
    made = {"name": name, "namespace": meta.namespace, "ownerReferences": [owner(job, kinds.JOB)]}
    reference = {"apiGroup": kinds.JOB.group, "kind": kinds.JOB.kind, "name": meta.name}
    of_workload: Object = {"controllerRef": reference, "podGroupTemplates": [{"name": template, **rules}]}
    of_group = {"workloadRef": {"workloadName": name, "templateName": template}, **rules}
    return [
        Create(
            kind,
            meta.namespace,
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": made, "spec": spec},
        )
        for kind, spec in ((kinds.WORKLOAD, of_workload), (_KIND, of_group))
    ]


def _rules(job: Job) -> Object:
    """Returns what the group asks for. Without a policy it is *basic*; the minimum is all pods at a time."""
    scheduling = job.spec.scheduling or {}
    policy = at(scheduling, "schedulingPolicy") or {"basic": {}}
    if "gang" in policy:
        policy = {"gang": {"minCount": job.spec.parallelism, **at(policy, "gang")}}
    rules: Object = {
        "schedulingPolicy": policy,
        **{key: scheduling[key] for key in _SAME if key in scheduling},
    }
    if name := at(job.spec.template, "spec").get("priorityClassName"):
        rules["priorityClassName"] = name
    return rules

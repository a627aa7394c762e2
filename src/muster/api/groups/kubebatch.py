"""The PodGroups of kube-batch, in the two API groups that it had. Pods name them as they name Volcano's."""

from typing import Final

from muster.api import kinds
from muster.api.base import Object, is_true
from muster.api.groups.dialect import Asked, Dialect
from muster.api.groups.volcano import VOLCANO
from muster.api.kube_batch import QUOTA_RELEASED, PodGroup
from muster.names import BELOW_MINIMUM

#: What is said of a policy, of which kube-batch's proposal gives no more than the name.
_POLICY: Final = (
    f"spec.policy is not read; to restart the group below its minimum, annotate it {BELOW_MINIMUM}: restart"
)


def _asked(group: PodGroup) -> Asked:
    """Returns what it asks for; `minMembers` is how kube-batch's proposal spells the minimum."""
    spec = group.spec
    proposed = bool(spec.min_members) and not spec.min_member
    refusal = ""
    if spec.min_member and spec.min_members and spec.min_member != spec.min_members:
        both = f"spec.minMember is {spec.min_member}, and spec.minMembers is {spec.min_members}"
        refusal = f"{both}; write one of the two"
    return Asked(
        minimum=spec.min_members if proposed else spec.min_member,
        field="spec.minMembers" if proposed else "spec.minMember",
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        refusal=refusal,
        warnings=(_POLICY,) if spec.policy is not None else (),
        total=None if is_true(group.status.conditions, QUOTA_RELEASED) else spec.total_resources,
    )


def _spec(asked: Asked) -> Object:
    fields: Object = {
        "queue": asked.queue,
        "priorityClassName": asked.priority_class,
        "totalResources": asked.total,
    }
    return {"minMember": asked.minimum, **{key: value for key, value in fields.items() if value}}


#: kube-batch
INCUBATOR: Final = Dialect(
    name="kube-batch", kind=kinds.POD_GROUP_INCUBATOR, shares=VOLCANO, asked=_asked, spec=_spec
)
#: kube-batch 0.5, and Volcano before its first release
SIGS_DEV: Final = Dialect(
    name="kube-batch-v1alpha2", kind=kinds.POD_GROUP_SIGS_DEV, shares=VOLCANO, asked=_asked, spec=_spec
)

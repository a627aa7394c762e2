"""The PodGroups of scheduler-plugins and of Koordinator, which have one schema."""

from typing import Final

from muster.api import kinds
from muster.api import koordinator_v1alpha1 as koordinator
from muster.api.base import Object
from muster.api.groups.dialect import Asked, Dialect, Phases
from muster.api.scheduling import PodGroup


def _of_pod_group(group: PodGroup) -> Asked:
    return Asked(minimum=group.spec.min_member, field="spec.minMember")


def _of_koordinator(group: PodGroup) -> Asked:
    warnings = tuple(koordinator.read_otherwise(group.metadata.annotations))
    return Asked(minimum=group.spec.min_member, field="spec.minMember", warnings=warnings)


def _spec(asked: Asked) -> Object:
    return {"minMember": asked.minimum}


#: scheduler-plugins
POD_GROUP: Final = Dialect(
    name="podgroup",
    called="coscheduling",
    kind=kinds.POD_GROUP_X,
    label="scheduling.x-k8s.io/pod-group",
    asked=_of_pod_group,
    spec=_spec,
    phases=Phases(
        *("Pending", "Scheduling", "Scheduling", "Scheduling", "Running", "Finished", "Failed"), counted=False
    ),
)
KOORDINATOR: Final = Dialect(
    name="koordinator",
    kind=kinds.POD_GROUP_SIGS,
    label="pod-group.scheduling.sigs.k8s.io",
    by_description=koordinator.BY_NAME,
    minimum=koordinator.MIN_AVAILABLE,
    description=(koordinator.GROUPS, koordinator.MODE, *koordinator.MATCH_POLICY),
    asked=_of_koordinator,
    spec=_spec,
    phases=Phases(*("Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Finished", "Failed")),
)

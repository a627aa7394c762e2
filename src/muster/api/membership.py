"""The PodGroup that a pod belongs to: by label, or by the pod's own description of its gang (Koordinator).

A pod without a PodGroup label may name a gang for which no PodGroup exists (`BY_NAME`): the pod describes
the gang itself.
"""

from collections.abc import Mapping
from typing import Final

from muster.api.base import ObjectMeta
from muster.api.koordinator_v1alpha1 import BY_NAME, GROUPS, MIN_AVAILABLE
from muster.api.rules.metadata import subdomain
from muster.api.scheduling import POD_GROUP_LABEL

#: The API group of the PodGroups that such pods describe.
DESCRIBED: Final = "scheduling.sigs.k8s.io"
_LABELS: Final = tuple(POD_GROUP_LABEL.items())
#: Labels by which a pod may name a gang; as annotations, `BY_NAME` do the same.
_NAMING: Final = frozenset((*POD_GROUP_LABEL.values(), *BY_NAME))
_AS_ANNOTATION: Final = frozenset(BY_NAME)
#: Annotations by which a pod names or describes its gang.
_DESCRIBING: Final = frozenset((*BY_NAME, *MIN_AVAILABLE, GROUPS))


def pod_groups(labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """API group and name of each PodGroup that a pod names; the pod belongs to the first."""
    if not _names_any(labels, annotations):
        return []
    groups = [(group, name) for group, label in _LABELS if (name := labels.get(label))]
    if not groups and (name := _described(labels, annotations)):
        groups.append((DESCRIBED, name))
    return groups


def described_gang(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The name of the gang that a pod describes; "" if there is none, or no object could have that name."""
    if not _names_any(labels, annotations) or any(labels.get(label) for label in POD_GROUP_LABEL.values()):
        return ""
    return _described(labels, annotations)


def same_membership(before: ObjectMeta, now: ObjectMeta) -> bool:
    """Whether two states of a pod name the same PodGroups, and describe the same gang."""
    old, new = before.annotations, now.annotations
    if before.labels != now.labels:
        return False
    if old.keys().isdisjoint(_DESCRIBING) and new.keys().isdisjoint(_DESCRIBING):
        return True
    return all(old.get(key) == new.get(key) for key in _DESCRIBING)


def _names_any(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether a pod may name a gang. Most pods do not, and ten callers need this for each change of a pod."""
    return not (labels.keys().isdisjoint(_NAMING) and annotations.keys().isdisjoint(_AS_ANNOTATION))


def _described(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    for key in BY_NAME:
        if name := labels.get(key) or annotations.get(key):
            return "" if subdomain(name, ()) else name
    return ""

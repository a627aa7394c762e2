"""Which PodGroup a pod is of: by label, or, as Koordinator has it, by what it says of its gang itself.

A pod that has neither label may name a gang of which there is no PodGroup (`BY_NAME`): it describes one.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from muster.api.koordinator_v1alpha1 import BY_NAME
from muster.api.rules.metadata import subdomain
from muster.api.scheduling import POD_GROUP_LABEL

#: The API group of the PodGroups that such pods stand for.
DESCRIBED: Final = "scheduling.sigs.k8s.io"


def pod_groups(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """API group and name of the PodGroups that a pod names; it is of the first."""
    labelled = False
    for group, label in POD_GROUP_LABEL.items():
        if name := labels.get(label):
            labelled = True
            yield group, name
    if not labelled and (name := _described(labels, annotations)):
        yield DESCRIBED, name


def described_gang(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The gang that a pod describes; "" if it describes none, or one whose name no object could have."""
    if any(labels.get(label) for label in POD_GROUP_LABEL.values()):
        return ""
    return _described(labels, annotations)


def _described(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    for key in BY_NAME:
        if name := labels.get(key) or annotations.get(key):
            return "" if subdomain(name, ()) else name
    return ""

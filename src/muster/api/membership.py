"""The PodGroup that a pod belongs to: by label, or by the pod's own description of its gang (Koordinator).

A pod without a PodGroup label may name a gang for which no PodGroup exists (`BY_NAME`): the pod describes
the gang itself.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from muster.api.koordinator_v1alpha1 import BY_NAME
from muster.api.rules.metadata import subdomain
from muster.api.scheduling import POD_GROUP_LABEL

#: The API group of the PodGroups that such pods describe.
DESCRIBED: Final = "scheduling.sigs.k8s.io"


def pod_groups(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """API group and name of each PodGroup that a pod names; the pod belongs to the first."""
    labelled = False
    for group, label in POD_GROUP_LABEL.items():
        if name := labels.get(label):
            labelled = True
            yield group, name
    if not labelled and (name := _described(labels, annotations)):
        yield DESCRIBED, name


def described_gang(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The name of the gang that a pod describes; "" if there is none, or no object could have that name."""
    if any(labels.get(label) for label in POD_GROUP_LABEL.values()):
        return ""
    return _described(labels, annotations)


def _described(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    for key in BY_NAME:
        if name := labels.get(key) or annotations.get(key):
            return "" if subdomain(name, ()) else name
    return ""

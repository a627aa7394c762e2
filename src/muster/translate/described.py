"""Gangs without a PodGroup, which pods describe themselves: Koordinator's annotations, and its older labels.

A pod that names its gang so says what a PodGroup would: how many of them must run together, and which other
gangs are one with it. What the oldest of them says stands for the PodGroup (`Described`) as long as there is
none of that name, and is read as one; younger ones have to say the same. Koordinator goes by the pod that it
has seen first, and passes over what others say; who is the oldest does not depend on who looks, or when.

Source: koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (tryInitByPodConfig) and
util/gang_helper.go.
"""

from muster.api.base import ObjectMeta, mark
from muster.api.core_v1 import Pod
from muster.api.koordinator_v1alpha1 import GROUPS, MIN_AVAILABLE
from muster.api.membership import described_gang
from muster.api.natural import natural
from muster.api.scheduling import PodGroup, PodGroupSpec


class Described(PodGroup, frozen=True):
    """What a pod says of its gang."""

    #: the pod's name
    by: str = ""
    #: its minimum, as it is written
    minimum: str = ""


def gang_of(pod: Pod) -> str:
    """The gang that a pod describes; "" if it describes none."""
    return described_gang(pod.metadata.labels, pod.metadata.annotations)


def told_by(pod: Pod) -> Described:
    """The gang as this pod, which describes one, describes it."""
    meta, minimum = pod.metadata, minimum_of(pod.metadata)
    least = natural(minimum)
    return Described(
        metadata=ObjectMeta(
            name=gang_of(pod),
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            annotations={GROUPS: meta.annotations[GROUPS]} if GROUPS in meta.annotations else {},
        ),
        spec=PodGroupSpec(min_member=-1 if least is None else least),
        by=meta.name,
        minimum=minimum,
    )


def minimum_of(meta: ObjectMeta) -> str:
    """How many pods of its gang must run together, as a pod says it; "" if it does not."""
    return next(filter(None, (mark(meta, key) for key in MIN_AVAILABLE)), "")

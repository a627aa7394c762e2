"""Gangs without a PodGroup, which pods describe themselves: Koordinator's annotations, and its older labels.

A pod that names its gang in this way states what a PodGroup would: how many pods must run together, and which
other gangs form one gang with it. While no PodGroup of that name exists, the description of the oldest such
pod replaces it (`Described`), and is read as one; younger pods must state the same. Koordinator follows the
pod that it has seen first, and ignores what others state; which pod is the oldest depends neither on the
observer nor on the time.

Source: koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (tryInitByPodConfig) and
util/gang_helper.go.
"""

from typing import Final

from muster.api import groups
from muster.api.base import ObjectMeta, mark
from muster.api.core_v1 import Pod
from muster.api.natural import natural
from muster.api.scheduling import PodGroup, PodGroupSpec

#: annotations that describe the gang, besides its name and its minimum
_ALSO: Final = groups.DESCRIBED.description


class Described(PodGroup, frozen=True):
    """A gang as a pod describes it."""

    #: the pod's name
    by: str = ""
    #: the gang's minimum, as the pod writes it
    minimum: str = ""


def gang_of(pod: Pod) -> str:
    """Returns the gang that a pod describes; "" if it describes none."""
    found = groups.named(pod)
    return found.name if found is not None and found.described else ""


def told_by(pod: Pod) -> Described:
    """Returns the gang as this pod describes it; the pod must describe one."""
    meta, minimum = pod.metadata, minimum_of(pod.metadata)
    least = natural(minimum)
    return Described(
        metadata=ObjectMeta(
            name=gang_of(pod),
            namespace=meta.namespace,
            creation_timestamp=meta.creation_timestamp,
            annotations={key: meta.annotations[key] for key in _ALSO if key in meta.annotations},
        ),
        spec=PodGroupSpec(min_member=-1 if least is None else least),
        by=meta.name,
        minimum=minimum,
    )


def minimum_of(meta: ObjectMeta) -> str:
    """Returns how many pods of its gang must run together, as a pod states it; "" if it does not."""
    return next(filter(None, (mark(meta, key) for key in groups.DESCRIBED.minimum)), "")

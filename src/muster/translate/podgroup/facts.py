"""Reads what one pod of a PodGroup states: once per pod, however often its group is read.

Nothing here reads the group or its other pods. A change of anything else that is read (namespaces, claims,
priority classes) clears the world's memory (`World.once`).
"""

from typing import NamedTuple

from muster.api.core_v1 import Pod
from muster.core.words.gang import Gate, Labels, Shape
from muster.translate import marks
from muster.translate.podgroup.pod_sets import own_labels
from muster.translate.pods import asked
from muster.translate.priority import may_preempt, priority
from muster.translate.running import Run, run
from muster.translate.world import World


class Facts(NamedTuple):
    shape: Shape
    #: those of the pod's own labels that its terms select on
    own_labels: Labels
    #: why the pod must not start, apart from its group and quotas
    refusal: Gate | None
    #: None if the stated priority cannot be honoured
    priority: int | None
    preempts: bool
    run: Run


def facts(pod: Pod, world: World) -> Facts:
    """Returns the facts of a pod as it is in the world now; computed once."""
    return world.once(pod, _facts)


def _facts(pod: Pod, world: World) -> Facts:
    shape, refusal = asked(pod, world)
    number = priority(pod.spec, world)
    unranked = number if isinstance(number, Gate) else None
    return Facts(
        shape,
        own_labels(shape, pod.metadata.labels),
        marks.refusal(pod.metadata, of_pods=True) or refusal or unranked,
        None if isinstance(number, Gate) else number,
        may_preempt(pod.spec, world),
        run(pod.metadata),
    )

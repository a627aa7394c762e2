"""What one pod of a PodGroup says of itself: read once per pod, however often its group is read.

Nothing here looks at the group or at its other pods. What it looks at besides the pod (namespaces, claims,
priority classes) empties the world's memory when it changes (`World.once`).
"""

from typing import NamedTuple

from muster.api.core_v1 import Pod
from muster.core.gang import Gate, Labels, Shape
from muster.translate import marks
from muster.translate.podgroup.pod_sets import own_labels
from muster.translate.pods import asked
from muster.translate.priority import may_preempt, priority
from muster.translate.running import Run, run
from muster.translate.world import World


class Facts(NamedTuple):
    shape: Shape
    #: of its own labels, those that its terms look at
    own_labels: Labels
    #: why it must not be started, apart from its group and quotas
    refusal: Gate | None
    #: None if what it says cannot be honoured
    priority: int | None
    preempts: bool
    run: Run


def facts(pod: Pod, world: World) -> Facts:
    """Read once for a pod as it is in the world now."""
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

"""Members whose node has been deleted: they are lost at once.

No kubelet is left that would end such a pod. Kubernetes' pod garbage collector deletes it about a minute
later, and until then the gang seems to stand. Here it is deleted as soon as the node is gone, with the mark
of a disruption, and its controller replaces it. If the gang is below its minimum without these members, and
its owner can be suspended, the gang is suspended first: it starts again as a whole, and no member that breaks
off counts as a failure of its Job.

The API server itself is asked first whether the node is gone. A pod without a controller would be lost for
good; that one is left to the garbage collector.
"""

from muster.api import kinds
from muster.api.base import controller_of
from muster.api.core_v1 import Pod
from muster.effects import Absent, Evict
from muster.runtime.commit.context import Context
from muster.runtime.commit.ending import suspendable
from muster.runtime.commit.places import minimum_met
from muster.runtime.commit.view import Step
from muster.runtime.writes import suspend
from muster.translate.pods import live, occupies


def end_orphans(context: Context, *, planned: bool) -> Step | None:
    """Returns the step that ends the members whose nodes are gone; None if there are none.

    `planned`: a plan is open, which replaces the members itself.
    """
    view, group, places = context.view, context.group, context.places
    if view.present is None:
        return None
    lost = {place: pod for place, pod in places.filled.items() if pod.spec.node_name not in view.present}
    leaving = [p for p in group.leaving.values() if occupies(p) and p.spec.node_name not in view.present]
    orphans = [pod for pod in (*lost.values(), *leaving) if controller_of(pod) is not None]
    if not orphans:
        return None
    checks = [Absent(kinds.NODE, "", node, "") for node in sorted({pod.spec.node_name for pod in orphans})]
    owner = group.owner
    below = not minimum_met(group.gang, places.settled - lost.keys())
    if below and not planned and owner is not None and not owner.suspended and suspendable(context):
        return Step(context.state, (*checks, suspend(group.namespace, owner)))
    return Step(context.state, (*checks, *map(_end, orphans)))


def _end(pod: Pod) -> Evict:
    told = f"node {pod.spec.node_name} has been deleted" if live(pod) else ""
    return Evict(pod, told, at_once=True)

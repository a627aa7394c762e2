"""Sorts the pods of one PodGroup by what they mean to it.

A pod that has succeeded counts towards the minimum like a running pod, and so does a failed pod
that no controller replaces.
"""

from dataclasses import dataclass, field

from muster.api.base import controller_of
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB
from muster.core.words.gang import PodId
from muster.translate.filling import job_finished
from muster.translate.pods import live, occupies, scheduling_gates
from muster.translate.world import World


@dataclass(slots=True)
class Pods:
    """The pods of a group, sorted by what they mean to it, each in order of name."""

    ready: list[Pod] = field(default_factory=list)
    gated: list[Pod] = field(default_factory=list)
    #: succeeded, or failed without a controller that replaces them
    ended: list[Pod] = field(default_factory=list)
    leaving: dict[PodId, Pod] = field(default_factory=dict)


def sort(pods: list[Pod], world: World) -> Pods:
    found = Pods()
    for pod in pods:
        if pod.terminal:
            if _for_good(pod, world):
                found.ended.append(pod)
        elif not live(pod):
            if occupies(pod):
                found.leaving[PodId(pod.metadata.uid)] = pod
        elif scheduling_gates(pod.spec):
            found.gated.append(pod)
        else:
            found.ready.append(pod)
    return found


def _for_good(pod: Pod, world: World) -> bool:
    """Whether an ended pod will have no successor."""
    controller = controller_of(pod)
    if pod.status.phase == "Succeeded" or controller is None:
        return True
    if controller.kind != JOB.kind:
        return False
    job = world.jobs.get((pod.metadata.namespace, controller.name))
    return job is None or job.metadata.uid != controller.uid or job_finished(job)

"""The PodGroups of Volcano."""

from collections.abc import Iterator
from typing import Final

from muster.api import kinds
from muster.api import volcano_v1beta1 as volcano
from muster.api.base import Object
from muster.api.groups.dialect import Asked, Dialect
from muster.api.koordinator_v1alpha1 import GROUPS, TOPOLOGY_SPEC

#: What to write instead of a topology of HyperNodes.
LAYERS: Final = (
    "write the layers as a ClusterNetworkTopology and its rule as the annotation "
    f"{TOPOLOGY_SPEC} (docs/concepts/topology.md)"
)


def _asked(group: volcano.PodGroup) -> Asked:
    """Tasks count as in Volcano: not if their minima together are more than that of the group.

    Without a minimum it is the sum of the tasks', as Volcano's webhook completes its Jobs. `minResources`
    never lowers what its pods request: Volcano's controller computes it of them, without GPUs of limits.
    """
    spec = group.spec
    # sorted at each change of one of its pods
    asked = spec.min_task_member.items() if len(spec.min_task_member) <= volcano.MOST_TASKS else ()
    tasks = tuple(sorted((name, least) for name, least in asked if least > 0))
    together = sum(least for _, least in tasks)
    minimum = spec.min_member or together
    topology = spec.network_topology
    soft = topology is not None and topology.mode == "soft"
    return Asked(
        minimum=minimum,
        field="spec.minTaskMember" if together and not spec.min_member else "spec.minMember",
        tasks=tasks if minimum >= together else (),
        field_of_tasks="spec.minTaskMember",
        queue=spec.queue,
        priority_class=spec.priority_class_name,
        refusal=next(_unread(spec), ""),
        warnings=(f"spec.networkTopology is soft, and HyperNodes are not read; {LAYERS}",) if soft else (),
    )


def _unread(spec: volcano.PodGroupSpec) -> Iterator[str]:
    """Yields why a PodGroup of Volcano cannot be honoured."""
    if len(spec.min_task_member) > volcano.MOST_TASKS:
        yield (
            f"spec.minTaskMember has {len(spec.min_task_member)} tasks; "
            f"a PodGroup has at most {volcano.MOST_TASKS}"
        )
    if negative := min((each for each in spec.min_task_member.items() if each[1] < 0), default=None):
        task, least = negative
        yield f"spec.minTaskMember.{task[:63]} is {least}; write how many pods of it must run together"
    if spec.network_topology is not None and spec.network_topology.mode != "soft":
        yield f"spec.networkTopology needs HyperNodes, which are not read; leave it out, and {LAYERS}"
    if spec.sub_group_policy:
        yield (
            "spec.subGroupPolicy is not supported; leave it out (a partitionPolicy of a Job makes it), and "
            f"make a PodGroup of each part, joined by the annotation {GROUPS}"
        )


def _spec(asked: Asked) -> Object:
    fields: Object = {
        "minTaskMember": dict(asked.tasks),
        "queue": asked.queue,
        "priorityClassName": asked.priority_class,
    }
    return {"minMember": asked.minimum, **{key: value for key, value in fields.items() if value}}


VOLCANO: Final = Dialect(
    name="volcano",
    kind=kinds.POD_GROUP_VOLCANO,
    annotations=volcano.GROUP_NAME,
    task=volcano.TASK,
    asked=_asked,
    spec=_spec,
)

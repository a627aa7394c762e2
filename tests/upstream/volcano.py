"""Volcano's kinds as JSON, and Jobs as its users write them."""

from typing import Final

from muster.api.base import Kind, Object, Resource, owner
from muster.names import SCHEDULER


class Loose(Resource, frozen=True):
    """An object of others, with all that its spec and status have."""

    spec: Object = {}
    status: Object = {}


JOB: Final = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", True, Loose)
POD_GROUP: Final = Kind(
    "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", True, Loose, status=False
)
QUEUE: Final = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", False, Loose)
COMMAND: Final = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands", True, Loose, status=False)


def command(action: str, job: Loose) -> Object:
    """What a person asks of a Job, as `vcctl` does."""
    reference = owner(job, JOB)
    return {
        "metadata": {"name": f"{job.metadata.name}-{action.lower()}"},
        "action": action,
        "target": reference,
    }


def job(name: str, cpu: str = "1", pretend: str = "", /, *, minimum: int, **replicas: int) -> Object:
    """A Job of so many pods of each task; `pretend`: what simulated nodes do with them."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    marks = {"annotations": {"muster.dev/pretend": pretend}} if pretend else {}
    tasks = [
        {
            "name": task,
            "replicas": count,
            "template": {"metadata": marks, "spec": {"restartPolicy": "Never", "containers": [container]}},
        }
        for task, count in replicas.items()
    ]
    spec = {"schedulerName": SCHEDULER, "queue": "default", "minAvailable": minimum, "tasks": tasks}
    return {"metadata": {"name": name}, "spec": spec}

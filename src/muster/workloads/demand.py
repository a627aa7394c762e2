"""What a job requests from the cluster: its pod sets, each a template and a number of pods."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from muster.api.base import Object
from muster.api.batch_v1 import JobSpec
from muster.api.core_v1 import PodTemplate
from muster.api.fields import convert
from muster.api.jobset_v1alpha2 import JobSetSpec
from muster.api.kinds import VOLCANO_JOB
from muster.api.requests import gpus
from muster.workloads.jobfile import JobFile

#: Limit for the pods of one job file over all their waves, and for those that run at once.
MAX_PODS: Final = 1_000_000
MAX_PLACES: Final = 100_000


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one shape."""

    #: the type, replicated job, Job or pod
    name: str
    #: kind and name of the object that they belong to
    owner: tuple[str, str]
    #: {metadata, spec}
    template: Object
    #: pods that run at the same time: the places of a gang
    count: int
    #: pods that run in total, wave after wave
    pods: int
    #: the stage, a gang of its own, if the replicated jobs start in an order; else ""
    stage: str = ""

    @property
    def gpus(self) -> float:
        """GPUs of one pod: whole ones, and its share of one."""
        return gpus(convert(self.template, PodTemplate))


def demand(job: JobFile) -> list[PodSet]:
    """The pod sets of all jobs of a file, in its order. The objects must be valid."""
    return [pod_set for owner in job.primary for pod_set in pod_sets(owner)]


def pod_sets(owner: Object) -> Iterator[PodSet]:
    """The pod sets of one JobSet, Job, Job or CronJob of Volcano, or pod."""
    identity = (owner["kind"], owner["metadata"]["name"])
    match owner["kind"]:
        case "JobSet":
            spec = convert(owner["spec"], JobSetSpec)
            for replicated in spec.replicated_jobs:
                pod_set = _of_job(replicated.name, identity, replicated.template["spec"], replicated.replicas)
                yield replace(pod_set, stage=replicated.name) if spec.staged else pod_set
        case "Job" if owner["apiVersion"] == VOLCANO_JOB.api_version:
            for task in owner["spec"]["tasks"]:
                yield PodSet(task["name"], identity, task["template"], task["replicas"], task["replicas"])
        case "CronJob":  # Volcano's: its jobs ask for as much one after the other
            job = {"apiVersion": owner["apiVersion"], "kind": "Job", "metadata": owner["metadata"]}
            for pod_set in pod_sets({**owner["spec"]["jobTemplate"], **job}):
                yield replace(pod_set, owner=identity)
        case "Job":
            yield _of_job(owner["metadata"]["name"], identity, owner["spec"], 1)
        case _:
            yield PodSet(owner["metadata"]["name"], identity, owner, 1, 1)


def _of_job(name: str, owner: tuple[str, str], job: Object, replicas: int) -> PodSet:
    spec = convert(job, JobSpec)
    return PodSet(name, owner, spec.template, replicas * spec.places, replicas * spec.pods)

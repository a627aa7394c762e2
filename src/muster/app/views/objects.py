"""The objects that jobs consist of, and what belongs to what.

What an object says about its owner or its group is believed only within its own namespace, as Kubernetes
does: who may create pods in one namespace must not add pods to a job in another.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from muster.api import groups, kinds
from muster.api.base import AnyKind, Kind, Resource, at, controller_of
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.muster_v1alpha1 import BatchJob, Gang
from muster.api.volcano_v1alpha1 import VolcanoJob
from muster.kube.client import Client
from muster.kube.errors import Forbidden
from muster.kube.listing import list_all

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects that views are derived from."""

    jobsets: Sequence[JobSet] = ()
    jobs: Sequence[Job] = ()
    pod_groups: Sequence[tuple[AnyKind, Resource]] = ()
    pods: Sequence[Pod] = ()
    gangs: Sequence[Gang] = ()
    batch_jobs: Sequence[BatchJob] = ()
    volcano_jobs: Sequence[VolcanoJob] = ()
    #: the namespace that was read; "" = all
    namespace: str = ""

    def by_kind(self) -> dict[AnyKind, Sequence[Resource]]:
        found: dict[AnyKind, Sequence[Resource]] = {
            kinds.JOBSET: self.jobsets,
            kinds.JOB: self.jobs,
            kinds.POD: self.pods,
            kinds.GANG: self.gangs,
        }
        for of in groups.OF_NAMED:
            found[of] = [each for kind, each in self.pod_groups if kind is of]
        return found


async def fetch(client: Client, namespace: str = "") -> Objects:
    """All objects that make up jobs, listed at nearly the same time."""

    async def listed(kind: Kind[R]) -> list[R]:
        return (await list_all(client, kind, namespace, missing_ok=True)).items

    async def permitted(kind: Kind[R]) -> list[R]:
        try:
            return await listed(kind)
        except Forbidden:  # a user may have been granted what jobs consist of, and no more
            return []

    (jobsets, jobs), (batch_jobs, volcano_jobs), (pods, gangs), found = await asyncio.gather(
        asyncio.gather(listed(kinds.JOBSET), listed(kinds.JOB)),
        asyncio.gather(permitted(kinds.BATCH_JOB), permitted(kinds.VOLCANO_JOB)),
        asyncio.gather(listed(kinds.POD), listed(kinds.GANG)),
        asyncio.gather(*map(permitted, groups.OF_NAMED)),
    )
    named = [(kind, group) for kind, of in zip(groups.OF_NAMED, found, strict=True) for group in of]
    return Objects(jobsets, jobs, named, pods, gangs, batch_jobs, volcano_jobs, namespace)


class Identity(NamedTuple):
    """An object: which one, of those that had its name one after the other."""

    namespace: str
    #: the API group without the version
    group: str
    kind: str
    uid: str


class GroupName(NamedTuple):
    """A PodGroup, whether or not it exists."""

    #: the API group of the row by whose keys pods name it
    group: str
    namespace: str
    name: str


def identity(kind: Kind[Any], resource: Resource) -> Identity:  # Any: of any kind
    return Identity(resource.metadata.namespace, kind.group, kind.kind, resource.metadata.uid)


def controlled_by(resource: Resource) -> Identity | None:
    """What controls the object, by its own account; None if nothing does."""
    by = controller_of(resource)
    if by is None:
        return None
    group = by.api_version.rpartition("/")[0]
    return Identity(resource.metadata.namespace, group, by.kind, by.uid)


def group_of(pod: Pod) -> GroupName | None:
    """The PodGroup that the pod names."""
    found = groups.named(pod)
    return GroupName(found.dialect.kind.group, pod.metadata.namespace, found.name) if found else None


def parts_of_jobs(
    objects: Objects,
    described: Mapping[GroupName, Resource],
    members: Mapping[GroupName, Sequence[Pod]],
    within: Mapping[Identity, Identity],
) -> dict[Identity, list[GroupName]]:
    """By job, the PodGroups that are parts of it.

    A job has those that it controls. It has those that its templates name if each of them names one, and no
    other job controls one of these, and no other job or pod names one.
    `described`: the PodGroups that exist. `within`: the JobSet of each Job that has one.
    """
    parts: dict[Identity, list[GroupName]] = defaultdict(list)
    claims: dict[GroupName, set[Identity]] = defaultdict(set)
    named: dict[Identity, list[GroupName]] = {}
    made = (
        (kinds.JOBSET, objects.jobsets),
        (kinds.JOB, objects.jobs),
        (kinds.VOLCANO_JOB, objects.volcano_jobs),
    )
    owners = {identity(kind, job) for kind, jobs in made for job in jobs} if described else set()
    for name, group in described.items():
        if (by := controlled_by(group)) is not None:
            parts[by].append(name)
    for kind, jobs in made[:2] if described else ():
        for job in jobs:
            if (own := identity(kind, job)) not in within:
                named[own] = groups_of_templates(job)
                for each in named[own]:
                    claims[each].add(own)

    def is_of(job: Identity, name: GroupName) -> bool:
        """Whether a group that this job names is used by no other."""
        if name not in described:
            return False
        makers = {controlled_by(pod) for pod in members.get(name, ())}
        users = claims[name] | {within.get(by, by) if by is not None else None for by in makers}
        if (by := controlled_by(described[name])) is not None and by in owners:
            users.add(by)
        return users == {job}

    for own, several in named.items():
        if several and all(is_of(own, each) for each in several):
            parts[own] += [each for each in several if each not in parts[own]]
    return parts


def groups_of_templates(job: JobSet | Job) -> list[GroupName]:
    """The PodGroups that the templates of a job name, whether or not they exist; none if one names none."""
    if isinstance(job, Job):
        templates = [job.spec.template]
    else:
        templates = [at(each.template, "spec", "template") for each in job.spec.replicated_jobs]
    namespace = job.metadata.namespace
    found: dict[GroupName, None] = {}
    for template in templates:
        if (named := groups.named_in(template)) is None:
            return []
        found[GroupName(named.dialect.kind.group, namespace, named.name)] = None
    return [*found]


def group_name(kind: AnyKind, group: Resource) -> GroupName:
    return GroupName(groups.BY_KIND[kind].naming.kind.group, group.metadata.namespace, group.metadata.name)


def source_name(gang: Gang, namespace: str = "", name: str = "") -> GroupName:
    """The PodGroup that a Gang was read from; or another of its GangGroup, by namespace and name."""
    source = gang.spec.source
    row = groups.naming_of(source)
    group = row.kind.group if row is not None else source.api_version.rpartition("/")[0]
    return GroupName(group, namespace or gang.metadata.namespace, name or source.name)

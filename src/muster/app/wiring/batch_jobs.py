"""The controllers of BatchJobs and CedarPolicies, wired to the compiler and to Cedar."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from muster.api import rates
from muster.api.base import Object
from muster.api.core_v1 import Node
from muster.api.fields import Finding
from muster.api.kinds import CEDAR_POLICY, QUEUE, TRUST_POLICY
from muster.api.muster_v1alpha1 import BatchJob, CedarPolicy, TrustPolicy
from muster.app.wiring.compile_queue import Compiler
from muster.app.wiring.compiling import Answer, Context, Job, Policy
from muster.compiler import Facts
from muster.compiler.facts import Image
from muster.controllers import batch_job, cron, driver, lattice_job, policy
from muster.controllers.batch_grant import written
from muster.controllers.batch_job import Compiled
from muster.controllers.caches import Cache
from muster.controllers.policy import Judged
from muster.workloads.findings import JobFileError
from muster.workloads.platform import Stores, TargetName


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a job's images."""

    images: Mapping[str, Image] = field(default_factory=dict)
    #: (image, digest) of those that have been looked up
    pinned: Sequence[tuple[str, str]] = ()
    #: policies with `action: audit` that the images do not meet
    warnings: Sequence[Finding] = ()
    #: when the answer may change; None = not before `changed` is sent
    again: datetime | None = None
    #: what is not known yet; "" if everything is
    undecided: str = ""


class Images(Protocol):
    """Says what is known of the images of jobs (`muster.app.wiring.image_trust`)."""

    def judge(self, policy: TrustPolicy) -> Judged | None:
        """What is wrong with a policy; None if that is not known yet."""
        ...

    def find(self, job: BatchJob, policies: Sequence[TrustPolicy], images: Sequence[str]) -> Found:
        """What is known of these images of the job."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster that BatchJobs are compiled for."""

    facts: Callable[[], Facts]
    #: the time, which decides whether an audit is in effect
    now: Callable[[], datetime]
    #: whether nothing is permitted without a policy; False: everything is
    strict: bool
    #: compiles jobs and reads policies; who makes the site runs it
    compiler: Compiler
    target: TargetName = "muster"
    #: `namespace/name` of the ConfigMap with the prices
    priced: str = rates.KEY
    #: reads the values of secrets where there is no External Secrets Operator
    stores: Callable[[], Stores] | None = None
    #: what to install so that the cluster accepts an object; "" = it accepts the object already
    lacks: Callable[[Object], str] = lambda made: ""
    #: what the cluster does not enforce
    warnings: Callable[[], Sequence[Finding]] = lambda: ()
    #: looks images up; None = images are used as they are named
    trust: Images | None = None
    #: the values of `spec.schedulerName` whose pods muster schedules; None = all
    schedulers: frozenset[str] | None = None
    #: whether the cluster has LatticeJobs that muster converts
    lattice_jobs: bool = False
    #: sent when `facts` or `lacks` would return something else
    changed: driver.Signal = field(default_factory=driver.Signal)


def controllers(site: Site) -> list[driver.Controller[Any]]:  # Any: each has its own type of observation
    """The controllers of BatchJobs, of their schedules, of LatticeJobs, and of policies."""

    context_of = _Contexts(site)

    def compile_(
        job: BatchJob,
        policies: Sequence[CedarPolicy],
        trusted: Sequence[TrustPolicy],
        objects: Sequence[Object],
        nodes: Cache[Node],
    ) -> Compiled | None:
        try:
            context = context_of(policies, objects, nodes)
        except JobFileError as error:
            return Compiled(findings=[Finding((), str(error))])
        asked = Job(written(job), site.now())
        answer, about = site.compiler.compile(job.key, context, asked), Found()
        if answer is not None and site.trust is not None and answer.images:
            about = site.trust.find(job, trusted, answer.images)
            if about.undecided:
                return Compiled(undecided=about.undecided)
            if about.images:
                answer = site.compiler.compile(
                    job.key, context, Job(asked.job, asked.now, dict(about.images))
                )
        return _compiled(answer, about, site) if answer is not None else None

    def judge(policy: CedarPolicy) -> Judged | None:
        answer = site.compiler.judge(Policy(policy.metadata.name, policy.spec.policies))
        if answer is None:
            return None
        return Judged(tuple(answer.errors), {"permitCount": answer.permits, "forbidCount": answer.forbids})

    return [
        batch_job.controller(compile_, (site.changed, site.compiler.compiled), site.target),
        cron.batch_jobs(),
        policy.controller(CEDAR_POLICY, judge, site.compiler.judged),
        *([policy.controller(TRUST_POLICY, site.trust.judge, site.changed)] if site.trust else []),
        *([lattice_job.controller()] if site.lattice_jobs else []),
    ]


def _compiled(answer: Answer, about: Found, site: Site) -> Compiled:
    """The answer with what is known of the job's images and of what the cluster has."""
    until = min(filter(None, [answer.until, about.again]), default=None)
    if answer.undecided:
        return Compiled(undecided=answer.undecided, until=until)
    told, warned = list(answer.findings), list(answer.warnings)
    if not told:
        warned += [*about.warnings, *site.warnings()]
        lacking = dict.fromkeys(filter(None, map(site.lacks, [*answer.support, *answer.jobs])))
        told = [Finding((), each) for each in lacking]
    if told:
        unread = answer.unread
        return Compiled(findings=told, warnings=warned, until=until, images=about.pinned, unread=unread)
    return Compiled(
        answer.hash,
        answer.support,
        answer.jobs,
        (),
        warned,
        until,
        about.pinned,
        cost=answer.cost,
        risk=answer.risk,
    )


class _Contexts:
    """Makes the context of a site's jobs: the same object until something in it changes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._made: tuple[tuple[Any, ...], Context] | None = None  # Any: what the context was made of
        self._capacity: tuple[int, dict[str, int]] = (-1, {})

    def __call__(
        self, policies: Sequence[CedarPolicy], objects: Sequence[Object], nodes: Cache[Node]
    ) -> Context:
        """Raises `JobFileError` if the files of secrets cannot be read."""
        site = self._site
        stores = site.stores() if site.stores is not None else None
        texts = {each.metadata.name: each.spec.policies for each in policies if each.spec.enabled}
        queues = any(each["kind"] == QUEUE.kind for each in objects)
        of = (texts, site.facts(), self._capacity_of(nodes) if queues else {}, stores)
        if self._made is None or self._made[0][0] is not objects or self._made[0][1:] != of:
            _, facts, capacity, _ = of
            context = Context(
                facts,
                texts if texts or site.strict else None,
                objects,
                capacity,
                _plain(stores.values) if stores is not None else None,
                stores.file if stores is not None else "",
                site.target,
                site.priced,
            )
            self._made = (objects, *of), context
        return self._made[1]

    def _capacity_of(self, nodes: Cache[Node]) -> dict[str, int]:
        """The capacity that the queues share. It is computed again only if a node has changed."""
        from muster.translate.nodes import capacity_of

        if self._capacity[0] != nodes.version:
            self._capacity = nodes.version, dict(capacity_of(nodes.items.values()))
        return self._capacity[1]


def _plain(values: Mapping[str, Mapping[str, Mapping[str, str]]]) -> dict[str, dict[str, dict[str, str]]]:
    return {store: {path: dict(keys) for path, keys in paths.items()} for store, paths in values.items()}

"""The controllers of BatchJobs and CedarPolicies, wired to the compiler and to Cedar."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Protocol

import msgspec

from muster.api import rates
from muster.api.base import Object
from muster.api.core_v1 import ConfigMap, Node
from muster.api.fields import convert
from muster.api.kinds import CEDAR_POLICY, CONFIG_MAP, PRIORITY_CLASS, QUEUE, TRUST_POLICY
from muster.api.muster_v1alpha1 import BatchJob, CedarPolicy, TrustPolicy
from muster.compiler import Facts
from muster.compiler.declared import declared
from muster.compiler.facts import Image
from muster.controllers import batch_job, cron, driver, lattice_job, policy
from muster.controllers.batch_grant import written
from muster.controllers.batch_job import Compiled, Told
from muster.controllers.caches import Cache
from muster.controllers.policy import Judged
from muster.workloads.demand import pod_sets
from muster.workloads.findings import JobFileError, Severity
from muster.workloads.platform import Stores, TargetName
from muster.workloads.snapshot import Objects


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a job's images."""

    images: Mapping[str, Image] = field(default_factory=dict)
    #: (image, digest) of those that have been looked up
    pinned: Sequence[tuple[str, str]] = ()
    #: policies with `action: audit` that the images do not meet
    warnings: Sequence[Told] = ()
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
    target: TargetName = "muster"
    #: `namespace/name` of the ConfigMap with the prices
    priced: str = rates.KEY
    #: reads the values of secrets where there is no External Secrets Operator
    stores: Callable[[], Stores] | None = None
    #: what to install so that the cluster accepts an object; "" = it accepts the object already
    lacks: Callable[[Object], str] = lambda made: ""
    #: what the cluster does not enforce
    warnings: Callable[[], Sequence[Told]] = lambda: ()
    #: looks images up; None = images are used as they are named
    trust: Images | None = None
    #: whether the cluster has LatticeJobs that muster converts
    lattice_jobs: bool = False
    #: sent when `facts` or `lacks` would return something else
    changed: driver.Signal = field(default_factory=driver.Signal)


def controllers(site: Site) -> list[driver.Controller[Any]]:  # Any: each has its own type of observation
    """The controllers of BatchJobs, of their schedules, of LatticeJobs, and of policies."""

    counted: tuple[int, Mapping[str, int]] = (-1, {})

    def capacity(nodes: Cache[Node]) -> Mapping[str, int]:
        """Returns the capacity that the queues share. It is computed again only if a node has changed."""
        nonlocal counted
        from muster.translate.nodes import capacity_of

        if counted[0] != nodes.version:
            counted = nodes.version, capacity_of(nodes.items.values())
        return counted[1]

    def compile_(
        job: BatchJob,
        policies: Sequence[CedarPolicy],
        trusted: Sequence[TrustPolicy],
        objects: Sequence[Object],
        nodes: Cache[Node],
    ) -> Compiled:
        from muster.security.policies import InvalidPolicy, Policies  # Cedar takes 0.2 s to load
        from muster.workloads.lattice import cluster

        enabled = tuple((each.metadata.name, each.spec.policies) for each in policies if each.spec.enabled)
        try:
            asked: Policies | None = _policies(enabled) if enabled or site.strict else None
            values = site.stores() if site.stores is not None else None
        except InvalidPolicy as error:
            return Compiled(undecided=f"CedarPolicy {error}")
        except JobFileError as error:
            return Compiled(findings=[("", str(error), "")])
        facts = declared(replace(site.facts(), now=site.now()), objects)
        about = Found()

        def look_up(images: Sequence[str]) -> Mapping[str, Image]:
            nonlocal about
            about = site.trust.find(job, trusted, images) if site.trust is not None else about
            return about.images

        made, findings = cluster.compiled(written(job), facts, asked, values, look_up, site.target)
        if about.undecided:
            return Compiled(undecided=about.undecided)
        told = [cluster.told(each) for each in findings if each.severity is Severity.ERROR]
        warned = [cluster.told(each) for each in findings if each.severity is Severity.WARNING]
        until = min(filter(None, [made.until if made is not None else None, about.again]), default=None)
        if made is not None:
            warned += [*about.warnings, *site.warnings()]
            lacking = dict.fromkeys(filter(None, map(site.lacks, [*made.support, *made.jobs])))
            told += [("", each, "") for each in lacking]
        if made is None or told:
            return Compiled(findings=told, warnings=warned, until=until, images=about.pinned)
        whole = msgspec.json.encode([*made.support, *made.jobs], order="deterministic")
        hash_ = hashlib.sha256(whole).hexdigest()[:16]
        prices = _prices(objects, site.priced)
        risk, long = _risk(made.jobs, objects, prices, partial(capacity, nodes))
        warned += [("", long, "")] if long else []
        cost = _cost(made.jobs, prices)
        return Compiled(hash_, made.support, made.jobs, (), warned, until, about.pinned, cost=cost, risk=risk)

    return [
        batch_job.controller(compile_, site.changed, site.target),
        cron.batch_jobs(),
        policy.controller(CEDAR_POLICY, _judge),
        *([policy.controller(TRUST_POLICY, site.trust.judge, site.changed)] if site.trust else []),
        *([lattice_job.controller()] if site.lattice_jobs else []),
    ]


def _prices(objects: Sequence[Object], key: str) -> rates.Rates:
    """Returns the rates of the ConfigMap with this key: any user may write one of that name elsewhere."""
    maps = (convert(each, ConfigMap) for each in objects if each["kind"] == CONFIG_MAP.kind)
    return rates.read(next((each for each in maps if each.key == key), None))


def _cost(jobs: Sequence[Object], prices: rates.Rates) -> Object | None:
    """Returns what an hour of the jobs costs; None if it is not known."""
    from muster.translate.cost import hourly  # loads the scheduler

    pods = [(each.count, each.template) for job in jobs if job["kind"] == "JobSet" for each in pod_sets(job)]
    pods += [(each["replicas"], each["template"]) for job in jobs for each in job["spec"].get("tasks", ())]
    return hourly(pods, prices) if prices.prices else None


def _risk(
    jobs: Sequence[Object],
    objects: Sequence[Object],
    prices: rates.Rates,
    capacity: Callable[[], Mapping[str, int]],
) -> tuple[str, str]:
    """Returns what preemption may cost the jobs, and a warning if they run long without a checkpoint."""
    from muster.app.plan.risk import risks  # loads the scheduler

    known = Objects()
    for each in objects:
        for kind in (PRIORITY_CLASS, QUEUE):
            if each["kind"] == kind.kind:
                known.add(kind, convert(each, kind.type))
    shared = capacity() if any(kind is QUEUE for kind, *_ in known.items) else {}
    found = risks(jobs, known, prices, shared)
    warnings = filter(None, (each.warning for each in found))
    return "; ".join(each.message for each in found), "; ".join(warnings)


@lru_cache(maxsize=4)
def _policies(texts: tuple[tuple[str, str], ...]) -> Any:  # Any: Policies, which is loaded late
    from muster.security.policies import Policies

    return Policies(dict(texts))


def _judge(policy: CedarPolicy) -> Judged:
    from muster.security.policies import InvalidPolicy, Policies

    try:
        read = Policies({policy.metadata.name: policy.spec.policies})
    except InvalidPolicy as error:
        return Judged(tuple(error.errors), {"permitCount": 0, "forbidCount": 0})
    return Judged(counts={"permitCount": read.permits, "forbidCount": read.forbids})

"""Compiles BatchJobs and reads policies, as questions and answers that can cross a pipe.

Both are written by users, and both can take long: so the controllers do not compile themselves, but ask a
process beside them (`muster.app.wiring.compile_worker`). `Answerer` is all that this process does.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from muster.api import rates
from muster.api.base import Object
from muster.api.core_v1 import ConfigMap
from muster.api.fields import Finding, Severity, convert
from muster.api.kinds import CONFIG_MAP, PRIORITY_CLASS, QUEUE
from muster.compiler import Facts
from muster.compiler.declared import declared
from muster.compiler.facts import Image
from muster.workloads.demand import pod_sets
from muster.workloads.platform import Stores, TargetName
from muster.workloads.snapshot import Objects


class Context(msgspec.Struct, frozen=True, tag=True):
    """What all jobs of a cluster are compiled with, until it changes."""

    facts: Facts
    #: name → Cedar policies; None = nothing is asked
    policies: dict[str, str] | None = None
    #: objects that declare something (`muster.compiler.declared`), and those that decide about preemption
    objects: Sequence[Object] = ()
    #: the capacity that the queues share
    capacity: dict[str, int] = {}
    #: values of secrets and where they are written; None = there is an External Secrets Operator
    values: dict[str, dict[str, dict[str, str]]] | None = None
    file: str = ""
    target: TargetName = "muster"
    #: `namespace/name` of the ConfigMap with the prices
    priced: str = rates.KEY


class Job(msgspec.Struct, frozen=True, tag=True):
    """A BatchJob to compile in the context that was sent last."""

    #: the job as its author wrote it
    job: Object
    now: datetime
    images: dict[str, Image] = {}


class Policy(msgspec.Struct, frozen=True, tag=True):
    """The policies of one CedarPolicy, to be read."""

    name: str
    text: str


Question = Context | Job | Policy


class Answer(msgspec.Struct, frozen=True):
    """What a job is compiled to, or what is wrong with it, with the context or with a policy."""

    hash: str = ""
    support: list[Object] = []
    jobs: list[Object] = []
    findings: list[Finding] = []
    warnings: list[Finding] = []
    until: datetime | None = None
    #: the images that the job names
    images: list[str] = []
    cost: Object | None = None
    risk: str = ""
    #: what keeps muster from deciding; "" = it has decided
    undecided: str = ""
    #: whether the findings are about a job that cannot be read, so that no policy was asked
    unread: bool = False
    #: what is wrong with a policy, and what it has
    errors: list[str] = []
    permits: int = 0
    forbids: int = 0


class Answerer:
    """Answers questions. A context is kept for the jobs that follow."""

    def __init__(self) -> None:
        self._context = Context(Facts())
        self._undecided = ""
        self._policies: object = None  # Policies, which takes 0.2 s to load
        self._facts = Facts()

    def answer(self, question: Question) -> Answer:
        match question:
            case Context():
                return self._use(question)
            case Job():
                return self._compiled(question)
            case Policy():
                return _judged(question)

    def _use(self, context: Context) -> Answer:
        """Keeps the context, and says what is wrong with its policies."""
        from muster.security.policies import InvalidPolicy, Policies

        self._context, self._policies, self._undecided = context, None, ""
        self._facts = declared(context.facts, context.objects)
        if context.policies is not None:
            try:
                self._policies = Policies(context.policies)
            except InvalidPolicy as error:
                self._undecided = f"CedarPolicy {error}"
        return Answer(undecided=self._undecided)

    def _compiled(self, asked: Job) -> Answer:
        from muster.security.policies import Policies
        from muster.workloads.batch import cluster

        if self._undecided:
            return Answer(undecided=self._undecided)
        context = self._context
        policies = self._policies if isinstance(self._policies, Policies) else None
        stores = Stores(context.values, context.file) if context.values is not None else None
        named: list[str] = []

        def look_up(images: Sequence[str]) -> Mapping[str, Image]:
            named.extend(images)
            return asked.images

        facts = replace(self._facts, now=asked.now)
        made, findings = cluster.compiled(asked.job, facts, policies, stores, look_up, context.target)
        told = [each for each in findings if each.severity is Severity.ERROR]
        warned = [each for each in findings if each.severity is Severity.WARNING]
        until = made.until if made is not None else None
        if made is None or told:
            return Answer(findings=told, warnings=warned, until=until, images=named, unread=made is None)
        whole = msgspec.json.encode([*made.support, *made.jobs], order="deterministic")
        prices = _prices(context.objects, context.priced)
        risk, long = _risk(made.jobs, context.objects, prices, context.capacity)
        return Answer(
            hashlib.sha256(whole).hexdigest()[:16],
            list(made.support),
            list(made.jobs),
            [],
            [*warned, *([Finding((), long)] if long else [])],
            until,
            named,
            _cost(made.jobs, prices),
            risk,
        )


def _judged(asked: Policy) -> Answer:
    from muster.security.policies import InvalidPolicy, Policies

    try:
        read = Policies({asked.name: asked.text})
    except InvalidPolicy as error:
        return Answer(errors=error.errors)
    return Answer(permits=read.permits, forbids=read.forbids)


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
    jobs: Sequence[Object], objects: Sequence[Object], prices: rates.Rates, capacity: Mapping[str, int]
) -> tuple[str, str]:
    """Returns what preemption may cost the jobs, and a warning if they run long without a checkpoint."""
    from muster.app.snapshot import Snapshot  # loads the scheduler

    known = Objects()
    for each in objects:
        for kind in (PRIORITY_CLASS, QUEUE):
            if each["kind"] == kind.kind:
                known.add(kind, convert(each, kind.type))
    found = Snapshot(known, prices=prices).preflight(jobs).risks(capacity=capacity)
    warnings = filter(None, (each.warning for each in found))
    return "; ".join(each.message for each in found), "; ".join(warnings)

"""Compiles a batch job: each task by the shared pipeline, then the gates, then what is batch about it.

The result is the complete set of objects, or the complete list of problems. Objects are applied in two
layers: what pods need before they start, then the job.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from muster.api.base import Object
from muster.api.fields import Finding
from muster.compiler import Draft, Facts, compile_workload
from muster.compiler.fulfil import fulfil
from muster.security import posture
from muster.security.gates import Principal
from muster.security.policies import Policies
from muster.security.requests import Request, derive, of_job
from muster.workloads.batch import hints
from muster.workloads.batch.job import BatchJob, Task
from muster.workloads.platform import UNKNOWN, Stores, Submitter

#: Most bytes of an object that etcd stores.
MOST: Final = 3 * 2**19
#: Most characters that the placeholders of all tasks expand to.
MOST_EXPANDED: Final = 8 * 2**20
#: Most requests of all tasks (each takes some 0.1 ms), and most evaluations of a policy for one (some 2 µs).
MOST_REQUESTS: Final = 10_000
MOST_EVALUATIONS: Final = 2_000_000
#: Most objects that the pods of a job need, and problems after which no further task is compiled.
MOST_OBJECTS: Final = 5_000
MOST_PROBLEMS: Final = 1_000
_TASKS: Final = ("spec", "tasks")

#: Makes the objects of a job from its tasks' drafts. Reports what the target cannot express.
Target = Callable[
    [BatchJob, Sequence[tuple[Task, Draft]], Callable[[Finding], None], Facts], Sequence[Object]
]


@dataclass(frozen=True, slots=True)
class Compiled:
    job: BatchJob
    #: what pods need before they start; empty if there are problems
    support: Sequence[Object]
    #: empty if there are problems
    jobs: Sequence[Object]
    #: everything that was asked for, once per task
    requests: Sequence[tuple[Principal, Request]]
    #: everything that keeps the job from being applied
    problems: Sequence[Finding]
    #: what may surprise, and keeps nothing from being applied
    warnings: Sequence[Finding] = field(default=())
    #: when an audit ends, so that warnings become errors; None = never
    until: datetime | None = None


def compile_job(
    job: BatchJob,
    facts: Facts,
    target: Target,
    policies: Policies | None,
    submitter: Submitter = UNKNOWN,
    stores: Stores | None = None,
) -> Compiled:
    """The job's objects, or its problems.

    policies  None = nothing is asked (there is no platform)
    stores    values of secrets, where there is no External Secrets Operator; None = there is one
    """
    drafts: list[tuple[Task, Draft]] = []
    derived: list[list[Request]] = []
    expanded = number = wrong = 0
    for task in job.tasks:
        draft = compile_workload(task.workload, facts)
        drafts.append((task, draft))
        derived.append(derive(task.workload, facts, draft))
        expanded, number = expanded + draft.expanded, number + len(derived[-1])
        wrong += len(draft.problems)
        if wrong > MOST_PROBLEMS:
            return Compiled(job, (), (), (), _once([one for _, each in drafts for one in each.problems]))
        if much := _too_much(expanded, number, policies):
            return Compiled(job, (), (), (), [refusal(_TASKS, f"{much}; make several jobs")])
    refused: list[Finding] = []
    jobs = target(job, drafts, refused.append, facts)
    problems: list[Finding] = []
    asked: list[tuple[Principal, Request]] = []
    warnings: list[Finding] = []
    until: datetime | None = None
    of_whole = of_job(jobs, facts.scheduler)
    for (task, draft), of_task in zip(drafts, derived, strict=True):
        wanted = [*of_task, *of_whole]
        problems += draft.problems
        principal = Principal(
            job.namespace,
            job.name,
            task.name,
            queue=job.queue,
            user=submitter.user,
            groups=submitter.groups,
        )
        asked += [(principal, request) for request in wanted]
        if policies is not None:
            judged = posture.judge(policies, principal, wanted, facts)
            problems += judged.denied
            warnings += judged.warnings
            until = judged.until or until
    together = Draft(job.namespace, {})
    for _, draft in drafts:
        together.join(draft)
    problems += together.problems
    support = together.objects
    if stores is not None:
        support, missing = fulfil(support, stores.values, together.origins, stores.file)
        problems += missing
    problems += refused
    if len(support) > MOST_OBJECTS:
        many = f"need {len(support):,} objects; the most is {MOST_OBJECTS:,}; make several jobs"
        problems.append(refusal(_TASKS, many))
    problems += [_too_large(each, size) for each in jobs if (size := len(msgspec.json.encode(each))) > MOST]
    told = _once(problems)
    return Compiled(
        job=job,
        support=[] if told else support,
        jobs=[] if told else jobs,
        requests=asked,
        problems=told,
        warnings=_once([*warnings, *hints.find(job)]),
        until=until,
    )


def _too_much(expanded: int, requests: int, policies: Policies | None) -> str:
    """What is too much of the tasks that have been compiled so far; "" if nothing is."""
    number = policies.permits + policies.forbids if policies is not None else 0
    if expanded > MOST_EXPANDED:
        return f"have placeholders that expand to {expanded:,} characters; the most is {MOST_EXPANDED:,}"
    if requests > MOST_REQUESTS:
        return f"need {requests:,} permits or more; the most is {MOST_REQUESTS:,}"
    if requests * number > MOST_EVALUATIONS:
        told = f"need {requests:,} permits or more, and there are {number:,} policies"
        return f"{told}; their product is at most {MOST_EVALUATIONS:,}"
    return ""


def _too_large(made: Object, size: int) -> Finding:
    told = (
        f"the {made['kind']} would have {size / 2**20:.1f} MiB, of which an API server stores {MOST / 2**20}"
    )
    return Finding(_TASKS, f"{told}; make several jobs, or shorten their containers")


def _once(problems: Sequence[Finding]) -> list[Finding]:
    """The problems, one for each cause: tasks that share a resource share its denial."""
    return list({(each.path, each.message): each for each in problems}.values())


def refusal(path: tuple[str | int, ...], message: str) -> Finding:
    """What a target cannot express."""
    return Finding(path, message)

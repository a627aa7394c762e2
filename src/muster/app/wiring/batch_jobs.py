"""The controllers of BatchJobs and CedarPolicies, wired to the compiler and to Cedar."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from muster.api.base import Object
from muster.api.kinds import BATCH_JOB
from muster.api.muster_v1alpha1 import BatchJob, CedarPolicy
from muster.compiler import Facts
from muster.compiler.declared import declared
from muster.controllers import batch_job, cedar_policy, driver
from muster.controllers.batch_job import Compiled
from muster.controllers.cedar_policy import Judged
from muster.workloads.findings import JobFileError, Severity
from muster.workloads.platform import Stores


def controllers(
    facts: Facts, *, strict: bool, now: Callable[[], datetime], stores: Callable[[], Stores] | None = None
) -> list[driver.Controller[Any]]:  # Any: each has its own type of observation
    """The controllers. `strict`: without a policy nothing is permitted; otherwise nothing is asked.

    `now`: the time, for what ends.
    `stores`: reads the values of secrets where there is no External Secrets Operator.
    """

    def compile_(job: BatchJob, policies: Sequence[CedarPolicy], objects: Sequence[Object]) -> Compiled:
        from muster.security.policies import InvalidPolicy, Policies  # Cedar takes 0.2 s to load
        from muster.workloads.lattice import cluster

        enabled = tuple((each.metadata.name, each.spec.policies) for each in policies if each.spec.enabled)
        try:
            asked: Policies | None = _policies(enabled) if enabled or strict else None
            values = stores() if stores is not None else None
        except InvalidPolicy as error:
            return Compiled("", (), (), [("", f"CedarPolicy {error}", "")])
        except JobFileError as error:
            return Compiled("", (), (), [("", str(error), "")])
        known = declared(replace(facts, now=now()), objects)
        made, findings = cluster.compiled(_written(job), known, asked, values)
        told = [cluster.told(each) for each in findings if each.severity is Severity.ERROR]
        warned = [cluster.told(each) for each in findings if each.severity is Severity.WARNING]
        until = made.until if made is not None else None
        if made is None or told:
            return Compiled("", (), (), told, warned, until)
        whole = msgspec.json.encode([*made.support, *made.jobs], order="deterministic")
        return Compiled(hashlib.sha256(whole).hexdigest()[:16], made.support, made.jobs, (), warned, until)

    return [batch_job.controller(compile_), cedar_policy.controller(_judge)]


@lru_cache(maxsize=4)
def _policies(texts: tuple[tuple[str, str], ...]) -> Any:  # Any: Policies, which is loaded late
    from muster.security.policies import Policies

    return Policies(dict(texts))


def _judge(policy: CedarPolicy) -> Judged:
    from muster.security.policies import InvalidPolicy, Policies

    try:
        read = Policies({policy.metadata.name: policy.spec.policies})
    except InvalidPolicy as error:
        return Judged(errors=tuple(error.errors))
    return Judged(read.permits, read.forbids)


def _written(job: BatchJob) -> Object:
    """The job as its author wrote it, without the metadata of the server."""
    meta = job.metadata
    kept = {"name": meta.name, "namespace": meta.namespace, "labels": meta.labels}
    return {
        "apiVersion": BATCH_JOB.api_version,
        "kind": BATCH_JOB.kind,
        "metadata": {**kept, "annotations": _own(meta.annotations)},
        "spec": job.spec,
    }


def _own(annotations: dict[str, str]) -> dict[str, str]:
    """The annotations without those of kubectl, which are about the BatchJob itself."""
    return {key: value for key, value in annotations.items() if not key.startswith("kubectl.kubernetes.io/")}

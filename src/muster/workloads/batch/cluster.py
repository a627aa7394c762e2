"""Compiles a BatchJob of a cluster, where findings name fields and there are no lines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.api.base import Object
from muster.api.fields import Finding, Path, Severity
from muster.compiler import Facts
from muster.compiler.facts import Image
from muster.security.policies import Policies
from muster.workloads.batch import reader
from muster.workloads.batch.compiling import Compiled, compile_job
from muster.workloads.batch.merging import Merged
from muster.workloads.batch.targets import TARGETS
from muster.workloads.platform import Stores, TargetName


class Stored:
    """A BatchJob as the API server stores it."""

    def __init__(self, value: Object) -> None:
        self.value: Any = value  # Any: a user's JSON

    def finding(self, path: Path, message: str, severity: Severity = Severity.ERROR) -> Finding:
        return Finding(path, message, severity)


def compiled(
    job: Object,
    facts: Facts,
    policies: Policies | None,
    stores: Stores | None = None,
    look_up: Callable[[Sequence[str]], Mapping[str, Image]] | None = None,
    target: TargetName = "muster",
) -> tuple[Compiled | None, Sequence[Finding]]:
    """Returns what a BatchJob is compiled to, or None if it cannot be read, and the findings about it.

    The job is to be applied only if no finding is an error.
    """
    stored = Stored(job)
    read, errors = reader.read(stored, "default")
    if errors:
        return None, errors
    if look_up is not None:
        images = {each.image for task in read.tasks for each in task.workload.containers}
        facts = replace(facts, images=look_up(sorted(images)))
    made = compile_job(read, facts, TARGETS[target], policies, stores=stores)
    merged = Merged(stored)
    return made, list(dict.fromkeys(map(merged.placed, (*made.problems, *made.warnings))))

"""Batch jobs for tests: the chapter's job, and small variations of it."""

from pathlib import Path
from typing import Any, Final

import yaml

from muster.api.fields import Finding
from muster.compiler import Facts
from muster.security.policies import Policies
from muster.workloads import source
from muster.workloads.batch import reader
from muster.workloads.batch.compiling import Compiled, compile_job
from muster.workloads.batch.job import BatchJob
from muster.workloads.batch.targets import TARGETS

TRAINING: Final = (Path(__file__).parents[3] / "examples" / "training.yaml").read_text()


def parsed(text: str) -> tuple[BatchJob, list[Finding]]:
    """The job of a text, and what is wrong with it."""
    return reader.read(source.parse(text, "job.yaml")[0], "default")


def good(text: str) -> BatchJob:
    """The job of a text without errors."""
    job, findings = parsed(text)
    assert not findings, [str(each) for each in findings]
    return job


def compiled(
    text: str, *, target: str = "muster", policies: Policies | None = None, facts: Facts | None = None
) -> Compiled:
    return compile_job(good(text), facts or Facts(), TARGETS[target], policies)


def changed(text: str, change: dict[str, Any]) -> str:
    """The job with fields replaced: `{"spec/tasks/workers/replicas": 2}`; None removes one."""
    job = yaml.safe_load(text)
    for path, value in change.items():
        *parents, last = path.split("/")
        parent = job
        for name in parents:
            parent = parent.setdefault(name, {})
        if value is None:
            del parent[last]
        else:
            parent[last] = value
    return yaml.safe_dump(job, sort_keys=False)


def small(container: dict[str, Any] | None = None, **resources: Any) -> str:
    """A job of one task with one container, with these fields and resources."""
    base = {
        "image": "registry.example.com/app@sha256:" + "a" * 64,
        "command": ["/bin/app"],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    return yaml.safe_dump(
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "BatchJob",
            "metadata": {"name": "job", "namespace": "ml"},
            "spec": {
                "tasks": {"work": {"workload": {"containers": {"app": {**base, **(container or {})}}}}},
                "resources": resources,
            },
        },
        sort_keys=False,
    )

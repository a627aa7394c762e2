"""Compiling batch jobs under policies: the chapter's job, read, compiled and asked about, in processor time.

Each job has its own name, so nothing is the same twice. Of the 200 policies one permits each request of the
job; the others are about other teams, as in a cluster that many teams share.
"""

import time
from pathlib import Path
from typing import Final

from muster.compiler import Facts
from muster.security.policies import Policies
from muster.workloads import source
from muster.workloads.batch import reader
from muster.workloads.batch.compiling import Compiled, compile_job
from muster.workloads.batch.targets import TARGETS

JOB: Final = (Path(__file__).parents[1] / "examples" / "training.yaml").read_text()
JOBS: Final = 1_000
POLICIES: Final = 200
_OTHER: Final = """
permit (principal in Muster::Namespace::"team-{n}", action == Muster::Action::"AccessSecret", resource)
when {{ resource.path like "team-{n}/*" }};
"""


def run() -> dict[str, float]:
    """Figures by name; every name says its unit."""
    denied = _compiled(JOB, Policies()).problems
    texts = {f"own-{number}": each.fix for number, each in enumerate(denied)}
    texts |= {f"other-{n}": _OTHER.format(n=n) for n in range(POLICIES - len(texts))}
    begun = time.process_time()
    policies = Policies(texts)
    read = time.process_time() - begun
    begun = time.process_time()
    for number in range(JOBS):
        made = _compiled(JOB.replace("training-run-42", f"run-{number}"), policies)
        assert made.jobs, made.problems
    return {
        f"{POLICIES} policies read and checked, s": read,
        f"{JOBS:,} batch jobs compiled under {POLICIES} policies, s": time.process_time() - begun,
    }


def _compiled(text: str, policies: Policies) -> Compiled:
    job, findings = reader.read(source.parse(text, "job.yaml")[0], "default")
    assert not findings, findings
    return compile_job(job, Facts(), TARGETS["muster"], policies)

"""A batch job without its S3 endpoint is denied, with a list of everything that it lacks, and then runs.

The job is `examples/training.yaml` without its endpoint. Nothing is permitted at first. The fixes that
findings print (patches for the developer, permits for the administrator) are added until no finding is left.
That takes several rounds, because an endpoint that a patch declares needs a permit of its own. Then the job
is compiled and run. A laptop has no images, so the run adds a command.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from muster.api import kinds
from muster.api.base import Object
from muster.api.fields import Finding, Severity
from muster.app.commands.follow import Ended, follow
from muster.app.commands.submit import submit
from muster.app.views.job import JobView, State
from muster.app.views.lines import Printed
from muster.app.views.logs import Line
from muster.compiler import Facts
from muster.embedded.client import LocalClient
from muster.kube.apply import merge
from muster.security.policies import Policies
from muster.workloads import load as loading
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Caller, JobFile, Options
from muster.workloads.platform import Platform, Stores, Submitter

JOB: Final = Path(__file__).with_name("scripts") / "training.yaml"
#: The resource that the job lacks.
FORGOTTEN: Final = "s3-endpoint"
BUCKET: Final = "s3://training-data"
COMMAND: Final = "import os; print('reads', os.environ['S3_BUCKET'])"
_MOST_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Round:
    """What `muster check` finds, and the fixes that it prints: for the developer, and the administrator."""

    findings: Sequence[Finding]
    patches: Sequence[str]
    permits: Sequence[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    rounds: Sequence[Round]
    #: kinds of the objects that the job is compiled to, each with their number
    compiled: dict[str, int]
    view: JobView
    lines: tuple[Line, ...]


@dataclass(slots=True)
class Workplace:
    """The developer's file and the administrator's policies."""

    job: Object
    permits: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return yaml.safe_dump(self.job, sort_keys=False)

    @property
    def policies(self) -> Policies:
        return Policies({"permits.cedar": "\n".join(self.permits)} if self.permits else {})

    def check(self) -> Sequence[Finding]:
        """Returns all errors and warnings about the job, for a cluster that enforces everything."""
        platform = Platform(facts=Facts(), policies=self.policies, submitter=Submitter("ml/alice"))
        try:
            found = loading.load(JOB.name, Options(platform=platform), text=self.text).notes
        except JobFileError as error:
            found = tuple(error.findings)
        return [each for each in found if each.severity in (Severity.ERROR, Severity.WARNING)]

    def fix(self, findings: Sequence[Finding]) -> Round:
        """Adds what the findings print, each where it belongs."""
        permits = [each.fix for each in findings if each.fix.startswith("permit")]
        patches = [each.fix for each in findings if each.fix and each.fix not in permits]
        self.permits += permits
        for patch in patches:
            self.job = merge(self.job, yaml.safe_load(patch))
        return Round(findings, patches, permits)


def written() -> Object:
    """The job as its developer wrote it."""
    job: Object = yaml.safe_load(JOB.read_text())
    del job["spec"]["resources"][FORGOTTEN]
    return job


def fixed(workplace: Workplace) -> list[Round]:
    """The rounds until there is no finding left, or no fix."""
    rounds: list[Round] = []
    for _ in range(_MOST_ROUNDS):
        rounds.append(workplace.fix(workplace.check()))
        if not (rounds[-1].patches or rounds[-1].permits):
            break
    return rounds


def runnable(workplace: Workplace) -> JobFile:
    """The job as it is compiled for this machine: under the same policies, with a command."""
    [container] = workplace.job["spec"]["tasks"]["workers"]["workload"]["containers"].values()
    container["command"] = [sys.executable, "-c", COMMAND]
    values = {"default": {"ml/training-data": {"bucket": BUCKET, "access-key": "-", "secret-key": "-"}}}
    platform = Platform(policies=workplace.policies, stores=lambda: Stores(values, "secrets/{store}.yaml"))
    environ = os.environ
    caller = Caller(os.getcwd(), environ.get("PATH", ""), environ.get("HOME", ""), environ.get("LANG", ""))
    return loading.load(JOB.name, Options(caller=caller, platform=platform), text=workplace.text)


async def run(client: LocalClient) -> Outcome:
    """Checks and fixes the job, and follows its run to the end."""
    workplace = Workplace(written())
    rounds = fixed(workplace)
    job = runnable(workplace)
    compiled: dict[str, int] = {}
    for each in job.objects:
        compiled[each["kind"]] = compiled.get(each["kind"], 0) + 1
    await client.create(kinds.QUEUE, "", {"metadata": {"name": workplace.job["spec"]["queue"]}})
    (followed,) = (await submit(client, job)).jobs
    lines: list[Line] = []
    async for news in follow(client, [followed]):
        if isinstance(news, Printed):
            lines += [Line(each.pod, text) for each in news.lines for text in each.texts]
        elif isinstance(news, Ended):
            return Outcome(rounds, compiled, news.views[0], tuple(lines))
    raise AssertionError("following a job ends with Ended")


def passed(outcome: Outcome) -> bool:
    return not outcome.rounds[-1].findings and outcome.view.state is State.SUCCEEDED

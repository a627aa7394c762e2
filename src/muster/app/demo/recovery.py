"""A coordinator and three workers run as a gang; one worker is killed midway, and the job recovers.

The job is an AIchor manifest with `backoffLimit: 1`, compiled as `muster run` does. The process to kill is
found by its pod's name in its environment. It is killed with SIGKILL, as the kernel's OOM killer would do;
muster is not notified.
"""

import asyncio
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.app.commands.follow import Ended, follow
from muster.app.commands.submit import submit
from muster.app.views.job import JobView, State
from muster.app.views.lines import Printed
from muster.app.views.logs import Line
from muster.embedded.client import LocalClient
from muster.workloads import load as loading
from muster.workloads.jobfile import Caller, Options
from muster.workloads.pod_run import PodRun

WORK: Final = 4.0  # seconds
VICTIM: Final = "worker-1-0"
SCRIPT: Final = Path(__file__).with_name("scripts") / "pattern.py"


@dataclass(frozen=True, slots=True)
class Outcome:
    view: JobView
    runs: tuple[PodRun, ...]
    killed: int  # the process id
    lines: tuple[Line, ...]


def manifest() -> str:
    """The job file of the demo."""
    return f"""kind: AIchorManifest
apiVersion: 0.2.3
name: pattern
spec:
  operator: jobset
  command: {shlex.join([sys.executable, "-u", str(SCRIPT), str(WORK)])!r}
  scheduling: {{mode: gang}}
  restartPolicy: {{backoffLimit: 1}}
  types:
    coordinator:
      count: 1
      resources: {{cpus: 0.1, ramRatio: 1}}
    worker:
      count: 3
      resources: {{cpus: 0.1, ramRatio: 1}}
"""


async def run(client: LocalClient) -> Outcome:
    """Runs the job, kills the victim while it works, and follows the job to its end."""
    caller = Caller(
        os.getcwd(), os.environ.get("PATH", ""), os.environ.get("HOME", ""), os.environ.get("LANG", "")
    )
    job = loading.load("pattern.yaml", Options(caller=caller), text=manifest())
    (followed,) = (await submit(client, job)).jobs
    lines = []
    killed = 0
    async for news in follow(client, [followed]):
        if isinstance(news, Printed):
            printed = [Line(each.pod, text) for each in news.lines for text in each.texts]
            lines += printed
            if any(line.pod == VICTIM and "at work" in line.text for line in printed) and not killed:
                await asyncio.sleep(WORK / 2)  # midway through the work
                killed = _kill(f"{followed.name}-{VICTIM}")
        elif isinstance(news, Ended):
            runs = client.registry.history.runs(job=followed.name)
            return Outcome(news.views[0], tuple(runs), killed, tuple(lines))
    raise AssertionError("following a job ends with Ended")


def _kill(hostname: str) -> int:
    """Kills the pod's program with SIGKILL; returns its process id."""
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # the process has exited, or belongs to another user
        if f"HOSTNAME={hostname}".encode() in environment and str(SCRIPT).encode() in words[1:]:
            os.kill(int(process.name), signal.SIGKILL)
            return int(process.name)
    raise LookupError(f"no process of {hostname} was found")


def recovered(outcome: Outcome) -> bool:
    return outcome.view.state is State.SUCCEEDED and outcome.view.restarts == 1

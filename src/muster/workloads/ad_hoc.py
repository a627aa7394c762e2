"""A job file for a command: what `muster run -- COMMAND` runs, and what `--print` shows.

One process is a Job, and so are several that do not need each other: an Indexed Job, in which an index that
fails ends no other. A gang is a JobSet, because its pods have host names, ranks and a coordinator.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from muster import names
from muster.api import quantity
from muster.api.base import Object
from muster.workloads import dns, source
from muster.workloads.demand import MAX_PLACES
from muster.workloads.variables import literal

#: Programs that run another one, which the job is named after.
_LAUNCHERS: Final = re.compile(
    r"python[0-9.]*|pypy[0-9.]*|(ba|da|z)?sh|uvx?|run|env|torchrun|accelerate|launch|deepspeed|mpirun|srun|"
    r"time|nice|nohup|stdbuf|timeout|exec|poetry|conda|pdm|hatch"
)
#: Characters of a name that is taken from a command.
_LONGEST_NAME: Final = 30
_FEWEST_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class AdHoc:
    """A command, and what each of its pods needs. The amounts are as written."""

    command: tuple[str, ...]
    #: of each pod
    gpus: int = 0
    cpus: str = "1"
    memory: str = ""
    #: pods that run at the same time
    count: int = 1
    gang: bool = False
    #: "" = from the command, with a random suffix
    name: str = ""
    #: "" = the programs of this machine
    image: str = ""
    queue: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


def text(job: AdHoc) -> str:
    """The job file."""
    return source.written(manifest(job), width=100)


def manifest(job: AdHoc) -> Object:
    """The Job or JobSet as its author would write it.

    Raises ValueError, whose message begins with the option that cannot be honoured.
    """
    _check(job)
    metadata: Object = {"name": job.name} if job.name else {"generateName": f"{name_of(job.command)}-"}
    labels = {names.GANG: "true"} if job.gang else {}
    if job.queue:
        labels[names.QUEUE] = job.queue
    if labels:
        metadata["labels"] = labels
    if not job.gang:
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": _job(job)}
    metadata["annotations"] = {names.TRAINING: "PyTorch"}
    worker = {
        "name": "worker",
        "replicas": job.count,
        "template": {"spec": {"backoffLimit": 0, "template": _template(job)}},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"failurePolicy": {"maxRestarts": 0}, "replicatedJobs": [worker]},
    }


def name_of(command: Sequence[str]) -> str:
    """The name that a job gets from its command: that of the script or module, else of the program."""
    previous = ""
    for word in command:
        if previous == "-c":  # a script in one line
            break
        program = PurePosixPath(word).name
        if not (word.startswith("-") or "=" in word or _LAUNCHERS.fullmatch(program)):
            stem = program.rpartition(".")[2] if previous == "-m" else program.partition(".")[0]
            if name := _dns(stem):
                return name
        previous = word
    return _dns(PurePosixPath(command[0]).name) or "job"


def _dns(stem: str) -> str:
    """The words of a text as part of a name; "" if none can begin it."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).lstrip("-0123456789")[:_LONGEST_NAME].strip("-")


def _check(job: AdHoc) -> None:
    if job.name and not (dns.is_label(job.name) and len(job.name) <= dns.LABEL):
        better = _dns(job.name)
        advice = f", such as {better}" if better else ""
        raise ValueError(f"--name {job.name[:80]}: use lowercase letters, digits and hyphens{advice}")
    if not 1 <= job.count <= MAX_PLACES:
        raise ValueError(f"--count {job.count}: write 1 to {MAX_PLACES:,}")
    if not 0 <= job.gpus <= 1_000:
        raise ValueError(f"--gpus {job.gpus}: write 0 to 1,000, the GPUs of one pod")
    for option, amount in (("--cpus", job.cpus), ("--memory", job.memory)):
        try:
            if amount and quantity.parse(amount) <= 0:
                raise ValueError("must be more than 0")
        except ValueError as error:
            raise ValueError(f"{option} {amount[:80]}: {error}") from None
    if job.memory and quantity.parse(job.memory) < _FEWEST_BYTES:
        unit = f"; write {job.memory}Gi" if job.memory.isdecimal() else ""
        raise ValueError(f"--memory {job.memory}: is less than 1Mi{unit}")
    for said in (*job.command, *job.env.values(), job.image, job.queue):
        try:
            said.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{said!r} is not UTF-8, so no job file can hold it") from None


def _job(job: AdHoc) -> Object:
    if job.count == 1:
        return {"backoffLimit": 0, "template": _template(job)}
    return {
        "completionMode": "Indexed",
        "completions": job.count,
        "parallelism": job.count,
        "backoffLimitPerIndex": 0,
        "template": _template(job),
    }


def _template(job: AdHoc) -> Object:
    container: Object = {"name": "main"}
    if job.image:
        container["image"] = job.image
    container["command"] = [literal(word) for word in job.command]
    if job.env:
        container["env"] = [{"name": name, "value": literal(value)} for name, value in job.env.items()]
    requests = {"cpu": job.cpus}
    if job.memory:
        requests["memory"] = job.memory
    container["resources"] = {"requests": requests}
    if job.gpus:
        container["resources"]["limits"] = {names.GPU: job.gpus}
    spec: Object = {"restartPolicy": "Never", "containers": [container]}
    if job.image:
        spec["schedulerName"] = names.SCHEDULER
    return {"spec": spec}

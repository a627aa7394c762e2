"""Job files on the command line: compiles a file with the command's options, prints its notes on stderr."""

import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.api import groups, kinds
from muster.api.base import Object, at
from muster.api.fields import Finding, Severity, convert
from muster.api.koordinator_v1alpha1 import DEFAULT, ClusterNetworkTopology
from muster.api.layers import chain_of
from muster.api.muster_v1alpha1 import Queue
from muster.api.templates import pod_templates
from muster.api.volcano_v1beta1 import SCHEDULER as VOLCANO
from muster.app.commands.cancel import OfFile
from muster.app.commands.change import known_queue
from muster.app.views.job import JobView
from muster.app.wiring.cluster import Target, serves
from muster.app.wiring.state_directory import StateDirectory
from muster.cli import asking, submission
from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.say import say, say_styled
from muster.cli.show import plural
from muster.kube.client import Client
from muster.names import SCHEDULER
from muster.workloads import load as loading
from muster.workloads import secret_files, source
from muster.workloads.check import members_of_groups
from muster.workloads.demand import PodSet, demand
from muster.workloads.jobfile import Item, JobFile, Options, Role
from muster.workloads.kubernetes.gangs import is_gang
from muster.workloads.platform import EMBEDDED_PLATFORM, Platform

if TYPE_CHECKING:
    from muster.translate.risk import Risk

EMBEDDED: Final = Target()
_STYLE: Final = {"error": "red", "warning": "yellow", "note": "dim", "hint": "cyan"}


def load(
    file: str,
    *,
    gang: bool | None,
    queue: str | None,
    volumes: Sequence[str] | None,
    env: Mapping[str, str] | None = None,
    target: Target = EMBEDDED,
    suffix: str | None = None,
    content: bytes | None = None,
    cwd: str = "",
    runs: bool = True,
    jobs: bool = True,
    platform: Platform = EMBEDDED_PLATFORM,
    scheduler: str = SCHEDULER,
) -> JobFile:
    """The compiled file, with a random suffix unless `suffix` is given.

    Raises JobFileError with every error in the file. `content`: the file's content if it has been read
    already. `cwd`: the directory in which its pods run; "" = the current one. `runs`, `jobs`, `platform` and
    `scheduler`: as in `Options`.
    """
    pairs = {}
    for volume in volumes or ():
        name, separator, directory = volume.partition("=")
        if not (name and separator and directory):
            raise Failure(f"--volume {volume}: write NAME=DIR, e.g. --volume datasets=/data", BAD_INPUT)
        if not os.path.isdir(directory):
            raise Failure(f"--volume {volume}: {directory} is not a directory", BAD_INPUT)
        pairs[name] = os.path.abspath(directory)
    home = StateDirectory.of_user().root if target.embedded else Path()
    if target.embedded and runs and suffix is None:
        platform = replace(platform, stores=lambda: secret_files.read(home / "secrets"))
    if content is None and file == "-":
        content = stdin()
    options = Options(
        suffix=secrets.token_hex(4) if suffix is None else suffix,
        mode=None if gang is None else "gang" if gang else "independent",
        queue=queue,
        volumes=pairs,
        env=env or {},
        namespace=target.home,
        confined=bool(target.namespace),
        local=target.embedded,
        home=str(home) if target.embedded else "",
        caller=submission.caller(cwd) if target.embedded and runs else None,
        runs=runs,
        jobs=jobs,
        volcano=runs and not target.embedded and left_to_volcano(file, content, target),
        platform=platform,
        scheduler=scheduler,
    )
    return loading.load(called(file), options, text=content)


def left_to_volcano(file: str, content: bytes | None, target: Target) -> bool:
    """Whether the file may have Jobs of Volcano, and the cluster has its controllers for them."""
    text = source.read(Path(file)).encode() if content is None else content
    return kinds.VOLCANO_JOB.group.encode() in text and serves(target, kinds.VOLCANO_JOB)


def agreed(found: OfFile, what: str) -> list[JobView]:
    """The jobs that may be ended because a file was named: its own, and others to which its user agrees.

    `what`: what is done with them. Raises Failure if there are such others, and nobody can be asked.
    """
    if found.others:
        say(f"note: {OfFile.told(found.others)}: not {what}", err=True)
    if not found.unsure:
        return found.made
    told = OfFile.told(found.unsure)
    if not asking.possible():
        names = " ".join(f"{view.namespace}/{view.name}" for view in found.unsure)
        raise Failure(f"{told}. If it is to end, name it: `muster cancel {names}`", BAD_INPUT)
    yes = asking.agreed(f"{told}. Is it to be {what}, too?")
    return [*found.made, *found.unsure] if yes else found.made


def called(file: str) -> str:
    """The name of a file in messages."""
    return "standard input" if file == "-" else file


def stdin() -> bytes:
    """The content of standard input, at most one byte more than a job file may have."""
    return sys.stdin.buffer.read(source.MAX_BYTES + 1)


#: Pod sets that a line names at most.
MOST_PARTS: Final = 12


def header(job: JobFile) -> str:
    """The header of a job: `gang of 5: coordinator 1, worker 4 × 2 GPU`.

    With stages: `gang of 1: prepare 1, then gang of 4: worker 4`.
    """
    owners = {(each["kind"], each["metadata"]["name"]): each for each in job.primary}
    together: dict[object, list[PodSet]] = {}
    for each in demand(job):
        owner = owners[each.owner]
        gang: object = each.owner if is_gang(owner) else None
        if (group := groups.named_in(each.template)) is not None:
            gang = (owner["metadata"].get("namespace", ""), group.name)
        together.setdefault(gang, []).append(each)
    least: dict[object, int] = {
        (each["metadata"].get("namespace", ""), each["metadata"]["name"]): row.read(each).minimum
        for each in job.objects
        if (row := groups.row_of(each)) is not None and row.asked is not None
    }
    return "; ".join(
        _alone(sets) if gang is None else _gangs(sets, least.get(gang, 0)) for gang, sets in together.items()
    )


def _gangs(sets: Iterable[PodSet], least: int) -> str:
    """The text for one gang, or for one gang per stage if the replicated jobs start in an order.

    `least`: the minimum of its group object. If the file has fewer pods, others have to come from elsewhere.
    """
    stages = [list(members) for _, members in groupby(sets, key=lambda pod_set: pod_set.stage)]
    return ", then ".join(
        f"gang of {f'at least {least}' if (count := sum(m.count for m in members)) < least else count}: "
        + _parts((member, member.count, f"{member.pods} in all") for member in members)
        for members in stages
    )


def _alone(sets: Sequence[PodSet]) -> str:
    pods = plural(sum(each.pods for each in sets), "independent pod")
    return f"{pods}: {_parts((each, each.pods, f'{each.count} at a time') for each in sets)}"


def _parts(sets: Iterable[tuple[PodSet, int, str]]) -> str:
    """Each pod set with its number of pods, and with a remark if it runs in waves."""
    sets = list(sets)
    named = Counter(one.name for one, _, _ in sets)
    parts = [
        (f"{one.name} {number}" if named[one.name] == 1 else f"{one.owner[1]}/{one.name} {number}")
        + (f" × {one.gpus} GPU" if one.gpus else "")
        + (f" ({waves})" if one.count != one.pods else "")
        for one, number, waves in sets
    ]
    more = f" and {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
    return ", ".join(parts[:MOST_PARTS]) + more


def print_notes(job: JobFile) -> None:
    """Prints on stderr the notes about the file, and which of its gangs lack pods or their PodGroup in it."""
    for note in [*job.notes, *members_of_groups(job)]:
        print_finding(note)


def unusable(
    job: JobFile, there: Iterable[Queue] | None = None, adopts: frozenset[str] | None = None
) -> Iterator[Finding]:
    """Warnings about queues and a topology that an API server accepts but no scheduler can use.

    `there`: the queues of the cluster; None if they are not known. `adopts`: which queues of other schedulers
    the scheduler adopts; None: all.
    """
    yield from _unusable_queues(job, there, adopts)
    for item in job.items:
        if item.object["kind"] == kinds.CLUSTER_NETWORK_TOPOLOGY.kind:
            if item.object["metadata"]["name"] != DEFAULT:
                told = f"only the one named {DEFAULT} is used"
                yield item.report(("metadata", "name"), told, Severity.WARNING)
            if error := chain_of(convert(item.object, ClusterNetworkTopology)).error:
                told = f"this topology cannot be used: {error}"
                yield item.report(("spec", "networkTopologySpec"), told, Severity.WARNING)


def _unusable_queues(
    job: JobFile, there: Iterable[Queue] | None, adopts: frozenset[str] | None
) -> Iterator[Finding]:
    known_kinds = {(kind.api_version, kind.kind): kind for kind in kinds.QUEUES}
    of_file = [
        (kind, each)
        for each in job.items
        if (kind := known_kinds.get((each.object["apiVersion"], each.object["kind"])))
    ]
    if not of_file:
        return
    from muster.core.words.gang import Queue as Rules  # imported here, because they import numpy
    from muster.core.world.queues.faults import faults_of
    from muster.translate.adopted import BY_KIND, EVERY, ROOT, Adopted, QueueObjects
    from muster.translate.queues import queue_changed

    items, known = dict[str, Item](), QueueObjects(EVERY if adopts is None else adopts)
    for kind, item in of_file:
        resource = convert(item.object, kind.type)
        name, *_ = known.change(kind, resource)
        items[name] = item
        row = BY_KIND.get(kind)
        if row is not None and not row.adopted_in(resource.metadata.namespace, known.adopts):
            where = f" of namespace {resource.metadata.namespace}" if kind.namespaced else ""
            told = f"is no queue of muster: its setting adoptQueues lists no {row.what}{where}"
            yield item.report(("metadata",), told, Severity.WARNING)
    counting = {each.metadata.name: each for each in there or ()}
    for each in known.all_counting():
        if isinstance(counting.get(each.metadata.name, each), Adopted) or not isinstance(each, Adopted):
            counting[each.metadata.name] = each
    rules = {name: queue_changed(each).queue for name, each in counting.items()}
    if there is None:
        above = {each.parent for each in rules.values()} - {ROOT, *rules}
        rules |= {name: Rules(name) for name in sorted(above)}
    faults = faults_of(rules)
    for name, item in items.items():
        if fault := faults.get(name):
            at = ("spec", "parent") if "parent" in item.object.get("spec", {}) else ("spec",)
            yield item.report(at, f"this queue cannot be used: {fault}", Severity.WARNING)


def of_jobs(job: JobFile, why: Mapping[str, str], remark: str = "") -> Iterator[Finding]:
    """A warning for each of the file's jobs that has a reason in `why`, by name; `remark`: added to each."""
    for name, item in gangs(job).items():
        if told := why.get(name):
            yield item.report(("metadata", "name"), told + remark, Severity.WARNING)


def gangs(job: JobFile) -> dict[str, Item]:
    """What the gangs of a file are called after, by name: its jobs, and the groups of its pods."""
    named = (item for item in job.items if item.role is Role.PRIMARY or _is_group(item.object))
    found: dict[str, Item] = {}
    for item in named:
        found.setdefault(item.object["metadata"]["name"], item)
    return found


def _is_group(obj: Object) -> bool:
    return groups.row_of(obj) in groups.NAMED


def print_finding(finding: Finding) -> None:
    from rich.text import Text

    severity = finding.severity.value
    say_styled([Text.assemble((f"{severity}: ", _STYLE[severity]), finding.whole())], err=True)


def finding_json(finding: Finding) -> Object:
    return {
        "severity": finding.severity.value,
        "file": finding.file,
        "line": finding.line,
        "field": finding.field,
        "message": finding.message,
        **({"fix": finding.fix} if finding.fix else {}),
    }


def print_error(sentence: str) -> None:
    from rich.text import Text

    say_styled([Text.assemble(("error: ", "red"), sentence)], err=True)


async def preflight(
    client: Client, job: JobFile, queue: str | None, target: Target, load: Callable[..., JobFile]
) -> JobFile:
    """Refuses a job that would otherwise wait for ever. Returns the job for the schedulers of this cluster.

    `load`: reads the file again with the `scheduler` that muster is there, if it has another name.

    Warns of one that waits for a change of queues, of what muster will not do as it says, and of queues and a
    topology that cannot be used.

    Raises Failure with what the cluster can never start, or Refused with what is wrong with the requested
    queue.
    """
    from muster.app.snapshot import Snapshot  # loads the scheduler

    snapshot = await Snapshot.around(client, job.objects, target.schedulers)
    if snapshot.schedulers and SCHEDULER not in snapshot.schedulers:
        job = load(scheduler=min(snapshot.schedulers))
    for finding in _unserved(job, snapshot.schedulers):
        print_finding(finding)
    queues = None if kinds.QUEUE in snapshot.objects.denied else snapshot.queues
    for finding in unusable(job, queues, snapshot.adopts):
        print_finding(finding)
    if queue is not None:
        for namespace in sorted({each["metadata"]["namespace"] for each in job.primary}):
            known_queue(queue, namespace, snapshot)
    found = snapshot.preflight(job.objects)
    if found.never:
        raise Failure("\n".join(found.never), BAD_INPUT)
    for said in (found.barred, found.out_of_reach, found.warnings()):
        for finding in of_jobs(job, said):
            print_finding(finding)
    print_risks(_untold(found.risks(but=found.barred), target))
    return job


def _unserved(job: JobFile, served: frozenset[str] | None) -> Iterator[Finding]:
    """Warnings about pods that are meant for muster by a schedulerName that it does not have there.

    A Job of Volcano that names another scheduler may well be meant for that.
    """
    if served is None:
        return
    for item in job.items:
        if item.object["apiVersion"] == kinds.VOLCANO_JOB.api_version:  # left to Volcano's controllers
            named = at(item.object, "spec").get("schedulerName") or VOLCANO
            if named not in served:
                told = f"is {named}, and muster schedules pods of {' or '.join(sorted(served))} there"
                yield item.report(("spec", "schedulerName"), told, Severity.WARNING)
    for item in job.items if SCHEDULER not in served else ():
        for path, template in pod_templates(item.object) if item.role is Role.PRIMARY else ():
            if at(template, "spec").get("schedulerName") == SCHEDULER:
                told = (
                    f"{SCHEDULER} schedules no pods there; write schedulerName: {' or '.join(sorted(served))}"
                )
                yield item.report((*path, "spec", "schedulerName"), told, Severity.WARNING)


def _untold(risks: "Iterable[Risk]", target: Target) -> "Iterator[Risk]":
    """The risks as they are told at a submission: once for each queue, but each job's own warning always."""
    from muster.app.wiring.told import first_time

    queues = dict[str, bool]()
    for each in risks:
        if each.queue not in queues:
            where = "the embedded cluster" if target.embedded else target.connection.server
            queues[each.queue] = first_time(f"PreemptionRisk of queue {each.queue} of {where}")
        yield each if queues[each.queue] else replace(each, message="")


def print_risks(risks: "Iterable[Risk]") -> None:
    """Prints on stderr what preemption may cost."""
    for each in risks:
        if each.message:
            say(f"note: {each.message}", err=True)
        if each.warning:
            say(f"warning: {each.warning}", err=True)

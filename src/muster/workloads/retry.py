"""The job that runs again what has not succeeded of a job that has ended: an object made from its object.

A gang runs again as a whole. Of an Indexed Job the missing indexes run, of a JobSet the Jobs that have not
completed. The new Job counts its indexes from 0, as Kubernetes does; a shell line in front of each command
gives the variables the indexes that they had, so that the program sees what it saw before. No two retries of
a job have the same name, so of two that are made at the same time an API server accepts one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from muster import names
from muster.api.base import Object
from muster.api.indexes import Indexes
from muster.api.templates import pod_templates
from muster.kube.apply import LAST_APPLIED
from muster.workloads import annotate, training
from muster.workloads.jobfile import Mode

#: Bytes of the shell lines, which are an argument, for which Linux permits 128 KiB.
_LONGEST: Final = 64 * 2**10
#: What an earlier submission and the controllers have written on the object, besides API servers.
_OWN: Final = frozenset(
    {
        *(LAST_APPLIED, names.SUBMITTED_FROM, names.RUNNING_SINCE, names.TIME_USED, names.FAILURES),
        *(names.MOVED, names.PROGRESS_MOVES, names.ADMISSION, names.EPOCH, names.PLAN, names.RETRY_OF),
    }
)
#: What API servers write on the template of a Job.
_OF_JOBS: Final = frozenset(
    {
        *("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
    }
)
_RETRY: Final = re.compile(r"(.*)-r([1-9]\d{0,5})", re.ASCII)


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of which job this is a retry: annotation `muster.dev/retry-of`."""

    #: the job that was retried
    name: str
    #: that of the first job, whose directory for checkpoints is used
    uid: str
    #: the indexes that run again, as they were in the first job; "" = all
    indexes: str = ""

    @staticmethod
    def read(text: str | None) -> "Retry | None":
        """What an annotation says, which anybody may have written; None if it cannot be read."""
        try:
            return msgspec.json.decode(text or "", type=Retry) if len(text or "") <= _LONGEST else None
        except (msgspec.DecodeError, RecursionError):
            return None

    def annotation(self) -> str:
        return msgspec.json.encode(self).decode()


class NothingLeft(ValueError):
    """Everything of the job has succeeded."""


@dataclass(frozen=True, slots=True)
class Again:
    object: Object
    #: pods that run again; None = all
    pods: int | None


def next_name(name: str, retry: Retry | None) -> str:
    """The name of the next retry: `train-r1` of `train`, `train-r2` of `train-r1`."""
    found = _RETRY.fullmatch(name) if retry is not None else None
    return f"{found[1]}-r{int(found[2]) + 1}" if found is not None else f"{name}-r1"


def again(obj: Object, done: Mapping[tuple[str, int], Indexes], env: Mapping[str, str]) -> Again:
    """The retry of a Job or JobSet, of which these indexes have succeeded.

    `done`: by group and index of the Job; a Job without a JobSet is `("", 0)`. `env`: variables that all
    containers get unless they have them. Raises NothingLeft, and ValueError with what keeps it from running.
    """
    meta = obj["metadata"]
    before = Retry.read((meta.get("annotations") or {}).get(names.RETRY_OF))
    made = deepcopy({key: obj[key] for key in ("apiVersion", "kind", "spec")})
    name = next_name(meta["name"], before)
    mode = annotate.mode_of(obj)
    made["metadata"] = {
        "name": name,
        "namespace": meta["namespace"],
        **{
            field: {key: text for key, text in found.items() if key not in _OWN}
            for field in ("labels", "annotations")
            if (found := meta.get(field))
        },
    }
    suspended = names.ADMISSION in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    made["spec"]["suspend"] = suspended
    chosen = _jobset(made, done, mode) if obj["kind"] == "JobSet" else _job(made, done, mode)
    if mode == "gang":
        made["spec"]["suspend"] = False
        annotate.as_gang(made)
    _rename(made, meta["name"], name)
    for _, template in pod_templates(made):
        for container in training.containers(template["spec"]):
            training.put_before(container, [training.plain(*pair) for pair in env.items()])
    first = Retry(meta["name"], before.uid if before is not None else meta["uid"], _indexes(chosen, before))
    made["metadata"].setdefault("annotations", {})[names.RETRY_OF] = first.annotation()
    return Again(made, len(chosen) if chosen is not None else None)


def _indexes(chosen: Sequence[int] | None, before: Retry | None) -> str:
    """The chosen indexes as they were in the first job."""
    if before is None or not before.indexes:
        return str(Indexes.of(chosen)) if chosen is not None else ""
    if chosen is None:
        return before.indexes
    known = originals(before, max(chosen) + 1)
    return str(Indexes.of(known[index] for index in chosen))


def _each(indexes: Indexes) -> Iterator[int]:
    for lo, hi in indexes.intervals:
        yield from range(lo, hi + 1)


def originals(retry: Retry | None, count: int) -> Sequence[int]:
    """The indexes that the first `count` indexes of a retry had in the first job."""
    if retry is None or not retry.indexes:
        return range(count)
    found = list(islice(_each(Indexes.salvage(retry.indexes)), count))
    return [*found, *range(len(found), count)]


def _job(job: Object, done: Mapping[tuple[str, int], Indexes], mode: Mode | None) -> list[int] | None:
    """Leaves the missing indexes; returns them, None for all."""
    spec = job["spec"]
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    for key in _OF_JOBS & labels.keys():
        del labels[key]
    found = _missing(spec, done.get(("", 0), Indexes()))
    if not found:
        raise NothingLeft
    if mode == "gang" or len(found) == _completions(spec):
        return None
    _narrow(spec, found)
    return found


def _jobset(jobset: Object, done: Mapping[tuple[str, int], Indexes], mode: Mode | None) -> list[int] | None:
    """Leaves the Jobs that have not completed; returns the missing indexes of the only Job, None for all."""
    groups = jobset["spec"]["replicatedJobs"]
    left = [
        [
            index
            for index in range(group.get("replicas", 1))
            if _missing(group["template"]["spec"], done.get((group["name"], index), Indexes()))
        ]
        for group in groups
    ]
    if not any(left):
        raise NothingLeft
    if mode == "gang":
        return None
    if len(groups) == 1 and groups[0].get("replicas", 1) == 1:
        spec = groups[0]["template"]["spec"]
        found = _missing(spec, done.get((groups[0]["name"], 0), Indexes()))
        if len(found) == _completions(spec):
            return None
        _narrow(spec, found)
        return found
    if all(len(each) == group.get("replicas", 1) for each, group in zip(left, groups, strict=True)):
        return None
    total = sum(group.get("replicas", 1) for group in groups)
    offset = number = 0
    for group, indexes in zip(groups, left, strict=True):
        replicas = group.get("replicas", 1)
        lines = _case("JOB_INDEX", enumerate(indexes)) + _case(
            "JOB_GLOBAL_INDEX", ((number + i, offset + index) for i, index in enumerate(indexes))
        )
        lines += f"export GLOBAL_REPLICAS={total} REPLICATED_JOB_REPLICAS={replicas}\n"
        _before_commands(group["template"]["spec"]["template"]["spec"], lines)
        group["replicas"] = len(indexes)
        offset, number = offset + replicas, number + len(indexes)
    jobset["spec"]["replicatedJobs"] = [group for group in groups if group["replicas"]]
    return None


def _completions(spec: Object) -> int:
    """The pods of a Job that must succeed."""
    found = spec.get("completions")
    return int(found if found is not None else 1)


def _missing(spec: Object, done: Indexes) -> list[int]:
    """The indexes of a Job that have not succeeded; of a Job without indexes, all or none."""
    return list(done.missing(_completions(spec)))


def _narrow(spec: Object, indexes: Sequence[int]) -> None:
    spec["completions"] = len(indexes)
    spec["parallelism"] = min(spec.get("parallelism", 1), len(indexes))
    if spec.get("maxFailedIndexes") is not None:
        spec["maxFailedIndexes"] = min(spec["maxFailedIndexes"], len(indexes))
    spec.pop("successPolicy", None)
    if spec.get("completionMode") == "Indexed":
        _before_commands(spec["template"]["spec"], _case("JOB_COMPLETION_INDEX", enumerate(indexes)))


def _case(variable: str, pairs: "Iterator[tuple[int, int]] | enumerate[int]") -> str:
    """A shell line that replaces the new index in a variable by the one that it was."""
    cases = " ".join(f"{new}) {variable}={old};;" for new, old in pairs if new != old)
    return f"case ${variable} in {cases} esac; export {variable}\n" if cases else ""


def _before_commands(pod: Object, lines: str) -> None:
    if len(lines) > _LONGEST:
        raise ValueError("too many indexes are left for one retry; submit its file again")
    for container in training.containers(pod) if lines else ():
        command = [*(container.get("command") or ()), *(container.get("args") or ())]
        if not container.get("command"):
            raise ValueError(
                f"container {container['name']} has no command in its file, so it cannot be told its index; "
                "submit its file again"
            )
        if any("$(JOB_" in word for word in command):
            raise ValueError(
                f"container {container['name']} has $(JOB_…) in its command; submit its file again"
            )
        container["command"] = ["/bin/sh", "-c", f'{lines}exec "$@"', "sh", *command]
        container.pop("args", None)


def _rename(obj: Object, old: str, new: str) -> None:
    """Replaces the host names of the old JobSet in variables."""
    subdomain = (obj["spec"].get("network") or {}).get("subdomain")
    hosts = re.compile(rf"\b{re.escape(old)}-([a-z0-9-]+-\d+-\d+)\.{re.escape(subdomain or old)}\b")
    for _, template in pod_templates(obj):
        for container in training.containers(template["spec"]):
            for variable in container.get("env") or ():
                if isinstance(value := variable.get("value"), str):
                    variable["value"] = hosts.sub(rf"{new}-\1.{subdomain or new}", value)

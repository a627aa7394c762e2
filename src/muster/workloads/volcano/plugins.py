"""What Volcano's plugins give the pods of a Job: `env`, `svc`, `pytorch` and `tensorflow`.

The others are refused by name.

Hosts are called as JobSet calls them, `JOB-TASK-0-INDEX.JOB`, where Volcano has `JOB-TASK-INDEX.JOB`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from muster import names
from muster.api.base import Object
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.fields import Severity
from muster.api.jobset_v1alpha2 import JOB_INDEX
from muster.workloads.findings import nearest
from muster.workloads.training import containers
from muster.workloads.volcano.job import Report, Task, VolcanoJob

#: Longest string in bytes that Linux passes to a program, less its name.
_LONGEST: Final = 128 * 1024 - 128
#: Bytes of all values of a ConfigMap.
_MOST_BYTES: Final = 2**20
#: Tasks of a Job with svc: each container of each task has two variables for each task.
_MOST_LISTED: Final = 64
_MOUNT: Final = "/etc/volcano"
_TRUE: Final = ("1", "t", "T", "true", "True", "TRUE")
#: Plugins that need what muster does not make, and what to do.
_REFUSED: Final = {
    "mpi": "muster starts no sshd and makes no keys; start the ranks with torchrun, or with a launcher of "
    "your own by VC_*_HOSTS of svc, or write an MPIJob (docs/guides/operators.md)",
    "ray": "write the command of each task, with VC_*_HOSTS of svc for the address of the head",
    "hcclrank": "write the rank in the env of the tasks: $(VC_TASK_INDEX) of env is the index of a pod",
}
#: The arguments of those that are obeyed.
_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    "env": frozenset(),
    "svc": frozenset({"publish-not-ready-addresses", "disable-network-policy"}),
    "pytorch": frozenset({"master", "worker", "port"}),
    "tensorflow": frozenset({"ps", "worker", "chief", "evaluator", "port"}),
}
#: What TF_CONFIG calls the tasks, and the port that it names by default.
_ROLES: Final = ("ps", "worker", "chief", "evaluator")
_TF_PORT: Final = "2222"
_INDEX: Final = ("VK_TASK_INDEX", "VC_TASK_INDEX")
KNOWN: Final = (*_ARGUMENTS, "ssh", *_REFUSED)


class Plugins:
    """The plugins of one Job."""

    def __init__(self, job: VolcanoJob) -> None:
        self._job = job
        self._arguments = {name: _read(arguments) for name, arguments in job.plugins.items()}
        #: tasks each of whose pods is a Job of its own, since JobSet numbers Jobs over all tasks
        self.apart = frozenset(self._trainers)

    @property
    def tasks(self) -> list[Task]:
        """The tasks in the order of the JobSet: those that train first, each after those it depends on."""
        first = self._trainers
        left = sorted(
            self._job.tasks, key=lambda task: first.index(task.name) if task.name in first else len(first)
        )
        placed: list[Task] = []
        there: set[str] = set()
        while left:
            chosen = next(task for task in left if there.issuperset(task.depends_on))
            left.remove(chosen)
            placed.append(chosen)
            there.add(chosen.name)
        return placed

    def host(self, task: Task, index: int) -> str:
        """The host of a task's pod."""
        numbers = f"{index}-0" if task.name in self.apart else f"0-{index}"
        return f"{self._job.name}-{task.name}-{numbers}.{self._job.name}"

    def check(self, report: Report) -> None:
        """Reports plugins and arguments that are not obeyed, and hosts that are called otherwise here."""
        job = self._job
        for name, arguments in self._arguments.items():
            at = ("spec", "plugins", name)
            if name in _REFUSED:
                report(at, f"is not supported: {_REFUSED[name]}", Severity.ERROR)
            elif name == "ssh":
                told = "is ignored: pods get no keys, so a program that starts others by ssh fails; remove it"
                report(at, told, Severity.WARNING)
            elif name not in KNOWN:
                report(at, f"is no plugin of Volcano{nearest(name, KNOWN)}", Severity.ERROR)
            for argument in sorted(arguments.keys() - _ARGUMENTS.get(name, arguments.keys())):
                known = ", ".join(f"--{each}" for each in sorted(_ARGUMENTS[name])) or "none"
                told = f"{argument[:80]!r} is no argument of {name}; known: {known}"
                report(at, told, Severity.ERROR)
        if "pytorch" in job.plugins and not self._trainers:
            told = "there is no task master; write --master=NAME"
            report(("spec", "plugins", "pytorch"), told, Severity.ERROR)
        if "svc" in job.plugins and len(job.tasks) > _MOST_LISTED:
            told = (
                f"lists the hosts of at most {_MOST_LISTED} tasks, and there are {len(job.tasks)}; remove it"
            )
            report(("spec", "plugins", "svc"), told, Severity.ERROR)
        if any(len(self._tf_config(task)) > _LONGEST for task in job.tasks):
            told = f"lists {job.pods:,} hosts in TF_CONFIG, too many for a variable; lower replicas"
            report(("spec", "plugins", "tensorflow"), told, Severity.ERROR)
        self._check_hosts(report)

    def _check_hosts(self, report: Report) -> None:
        """Warns of hosts by Volcano's names in commands and variables."""
        job = self._job
        tasks = {each.name: each for each in job.tasks}
        one = "|".join(map(re.escape, sorted(tasks, key=len, reverse=True)))
        volcanos = re.compile(rf"(?<![-\w]){re.escape(job.name)}-({one})-(\d{{1,9}})(?![-\w])")
        for task in job.tasks:
            at = (*task.path, "template", "spec")
            pod = task.template.get("spec") or {}
            for field in ("hostname", "subdomain"):
                if pod.get(field):
                    told = "is ignored: a JobSet gives each pod a host name of its own; remove it"
                    report((*at, field), told, Severity.WARNING)
            for path, text in _texts(pod):
                if found := volcanos.search(text):
                    of = tasks[found[1]]
                    told = (
                        f"names the host {found[0]}, which is {self.host(of, int(found[2]))} here; the "
                        f"plugin svc lists the hosts in {_hosts(of)}"
                    )
                    report((*at, *path), told, Severity.WARNING)

    def apply(self, task: Task, pod: Object) -> None:
        """Adds to a task's pod what the plugins give it, after what its author wrote, as Volcano does."""
        listed = _config_map(self._job) if self._entries else ""
        variables = self._variables(task)
        for container in containers(pod):
            if variables:
                container["env"] = [*(container.get("env") or []), *variables]
            if listed:
                mount = {"name": listed, "mountPath": _MOUNT}
                container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
        if listed:
            volume = {"name": listed, "configMap": {"name": listed}}
            pod["volumes"] = [*(pod.get("volumes") or []), volume]

    def _variables(self, task: Task) -> list[Object]:
        made: list[Object] = []
        if {"env", "tensorflow"} & self._arguments.keys():
            label = JOB_INDEX if task.name in self.apart else COMPLETION_INDEX
            index = {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}
            made += [{"name": name, "valueFrom": index} for name in _INDEX]
        config_map = _config_map(self._job)
        made += [
            {"name": key, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}
            for key in self._entries
            if not key.endswith(".host")
        ]
        port = self._arguments.get("pytorch", {}).get("port")
        if port is not None and task.name in self.apart:
            made += [{"name": name, "value": port} for name in ("MASTER_PORT", "PET_MASTER_PORT")]
        if config := self._tf_config(task):
            made.append({"name": "TF_CONFIG", "value": config})
        return made

    def _tf_config(self, task: Task) -> str:
        """TensorFlow's description of the cluster, and of the pod by the variable of its index; "": none."""
        if (said := self._arguments.get("tensorflow")) is None or self._job.pods < 2:
            return ""
        port, cluster, its_own = said.get("port", _TF_PORT), {}, task.name
        for role in _ROLES:
            for each in self._job.tasks:
                if each.name == said.get(role, role):
                    cluster[role] = [f"{self.host(each, index)}:{port}" for index in range(each.replicas)]
                    its_own = role if each is task else its_own
        config = {"cluster": cluster, "task": {"type": its_own, "index": 0}}
        return msgspec.json.encode(config).decode().removesuffix("0}}") + f"$({_INDEX[1]})}}}}"

    def config_map(self, report: Report) -> Object | None:
        """The ConfigMap of svc: the hosts of each task as variables and as files; None without the plugin."""
        job = self._job
        if not self._entries:
            return None
        for task in job.tasks:
            if _hosts(task) not in self._entries:
                told = (
                    f"is {task.replicas:,}: too many hosts for a variable, so {_hosts(task)} is not set; "
                    f"read {_MOUNT}/{task.variable}.host"
                )
                report((*task.path, "replicas"), told, Severity.WARNING)
        if sum(map(len, self._entries.values())) > _MOST_BYTES:
            told = f"lists {job.pods:,} hosts, more than a ConfigMap can hold; remove it, or lower replicas"
            report(("spec", "plugins", "svc"), told, Severity.ERROR)
        metadata = {"name": _config_map(job), "namespace": job.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self._entries}

    @cached_property
    def _entries(self) -> dict[str, str]:
        """The values of the ConfigMap."""
        found: dict[str, str] = {}
        for task in self._job.tasks if "svc" in self._arguments else ():
            hosts = [self.host(task, index) for index in range(task.replicas)]
            found[f"{task.variable}.host"] = "\n".join(hosts)
            found[f"VC_{task.variable.upper()}_NUM"] = str(len(hosts))
            if len(together := ",".join(hosts)) <= _LONGEST:
                found[_hosts(task)] = together
        return found

    @property
    def network(self) -> Object:
        """The JobSet's network: with svc, a host has an address once its pod is ready, as in Volcano."""
        if "svc" not in self._arguments:
            return {}
        said = self._arguments["svc"].get("publish-not-ready-addresses", "false")
        return {"publishNotReadyAddresses": said in _TRUE}

    @property
    def marks(self) -> dict[str, str]:
        """Annotations of the JobSet: the framework whose variables its pods get, and the tasks that train."""
        if not self._trainers:
            return {}
        return {names.TRAINING: "PyTorch", names.TRAINERS: ",".join(self._trainers)}

    @cached_property
    def _trainers(self) -> list[str]:
        """The tasks of pytorch: that of the master, whose pod has rank 0, and that of the workers."""
        if (said := self._arguments.get("pytorch")) is None:
            return []
        there = {task.name for task in self._job.tasks}
        master, worker = said.get("master", "master"), said.get("worker", "worker")
        return [name for name in dict.fromkeys((master, worker)) if name in there] if master in there else []


def _read(arguments: Sequence[str]) -> dict[str, str]:
    """Arguments by name, as Go's flags read them: `--name=value`, or `--name` for a flag that is set."""
    found: dict[str, str] = {}
    for word in arguments:
        name, equals, value = word.partition("=")
        found[name.lstrip("-") if name.startswith("-") else name] = value if equals else "true"
    return found


def _texts(pod: Object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What the containers of a pod are told, by path."""
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(pod.get(kind) or []):
            for field in ("command", "args"):
                for index, word in enumerate(container.get(field) or []):
                    yield (kind, number, field, index), str(word)
            for index, variable in enumerate(container.get("env") or []):
                yield (kind, number, "env", index, "value"), str(variable.get("value", ""))


def _hosts(task: Task) -> str:
    return f"VC_{task.variable.upper()}_HOSTS"


def _config_map(job: VolcanoJob) -> str:
    return f"{job.name}-svc"

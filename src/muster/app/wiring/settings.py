"""The settings of the daemons: the command line overrides the file, and the file the defaults.

The file is YAML. `Live` reads it again when it has changed. Changes of `LIVE` settings take effect at once. A
change of any other setting is logged, and takes effect at the next start. A file that has become invalid
changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, Generic, Literal, TypeVar, get_type_hints

import msgspec

from muster.api import duration, quantity, selectors
from muster.api.fields import Finding, InvalidObject, Path, convert
from muster.api.rules.metadata import LABEL
from muster.kube.clock import Clock
from muster.names import DOMAIN, NAMESPACE, SCHEDULER, SCHEDULER_LEASE
from muster.translate import adopted
from muster.translate.bad_nodes import BadNodes
from muster.workloads import source
from muster.workloads.findings import JobFileError, nearest

log = logging.getLogger(__name__)

API_VERSION: Final = f"{DOMAIN}/v1alpha1"
#: Settings that take effect while a daemon runs.
LIVE: Final = ("burst", "log", "nodeSelector", "qps")
#: Seconds between two looks at the file.
LOOK: Final = 5.0
#: The formats and levels of the log.
FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")


class InvalidSettings(ValueError):
    """Settings that cannot be used; the message says which, where, and what to write instead."""


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Log(Struct, frozen=True):
    format: str = "text"
    level: str = "info"


class JournalFile(Struct, frozen=True):
    """Where the scheduler's events and decisions are recorded; not at all without a file."""

    file: str = ""
    #: of the file, after which it is renamed to FILE.1; the two together never take more than twice as much
    size: str = "64Mi"


class Tracing(Struct, frozen=True):
    """Where a span of each decision is sent (OTLP over HTTP); nowhere without an endpoint."""

    endpoint: str = ""


class LeaderElection(Struct, frozen=True):
    """The times of the Lease. A leader stops after `renew_deadline` without a renewal."""

    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"


class Common(Struct, frozen=True):
    api_version: str = API_VERSION
    kind: str = ""
    lease: str = ""
    #: HOST:PORT of /healthz, /readyz and /metrics
    listen: str = ""
    #: requests per second to the API server, and how many may go out at once; 0: no limit
    qps: float = 0.0
    burst: int = 0
    log: Log = Log()
    leader_election: LeaderElection = LeaderElection()


class SchedulerSettings(Common, frozen=True):
    lease: str = SCHEDULER_LEASE
    scheduler_names: tuple[str, ...] = (SCHEDULER,)
    #: muster uses only nodes with these labels; "": all nodes
    node_selector: str = ""
    #: the highest priority that `muster.dev/priority` can ask for while there is no PriorityClass
    max_priority: int = 0
    journal: JournalFile = JournalFile()
    tracing: Tracing = Tracing()
    #: which gangs the objects of a namespace may name: its own, or those of all namespaces
    explanations: Literal["own", "all"] = "own"
    bad_nodes: BadNodes = BadNodes()
    #: pods of other schedulers in these namespaces may be evicted for gangs of higher priority
    victim_namespaces: tuple[str, ...] = ()
    #: the queues of other schedulers that are queues of muster, too (`translate.adopted`)
    adopt_queues: tuple[str, ...] = adopted.DEFAULT
    #: those of the schedulerNames for whose pods another controller makes PodGroups, as Volcano's does: a pod
    #: that names no group waits for it
    await_pod_groups: tuple[str, ...] = ()


class BatchJobs(Struct, frozen=True):
    """What runs BatchJobs, and what enforces their declarations; `auto`: what the cluster has."""

    #: what runs the pods: a JobSet by muster's scheduler, Volcano's Job, a JobSet by Kubernetes' own gangs
    target: Literal["muster", "volcano", "native"] = "muster"
    network: Literal["auto", "cilium", "plain", "none"] = "auto"
    programs: Literal["auto", "tetragon", "none"] = "auto"
    #: whether Istio enforces connections too; not `auto`, since installed kinds do not put pods into the mesh
    mesh: Literal["none", "istio"] = "none"
    #: SPIFFE trust domain of the mesh
    trust_domain: str = "cluster.local"
    #: which images are looked up in their registries: those that match a TrustPolicy, or all
    images: Literal["matched", "all"] = "matched"
    #: Secrets with credentials of registries, in muster's namespace
    registry_secrets: tuple[str, ...] = ()
    #: whether to connect to registries on the controllers' own machine
    loopback_registries: bool = False
    #: whether LatticeJobs are converted to BatchJobs
    lattice_jobs: bool = False


class ControllersSettings(Common, frozen=True):
    lease: str = f"{NAMESPACE}/muster-controllers"
    #: those of the scheduler: the status of groups whose pods have other names is left to their schedulers
    scheduler_names: tuple[str, ...] = (SCHEDULER,)
    #: names of the controllers that run
    only: tuple[str, ...] = ("gang", "podgroup", "batchjob")
    batch_jobs: BatchJobs = BatchJobs()


#: The `kind` of a file, by the settings that it holds.
KINDS: Final[dict[type[Common], str]] = {
    SchedulerSettings: "SchedulerConfiguration",
    ControllersSettings: "ControllersConfiguration",
}

S = TypeVar("S", bound=Common)


def load(
    type_: type[S], file: str, given: Mapping[str, Any], check: Callable[[S], list[Finding]] | None = None
) -> S:
    """Returns the settings of a file ("": none), with those `given` on the command line in their place.

    `given`: by field as the file writes it, with dots (`log.format`). `check` finds what is wrong besides.
    Raises InvalidSettings.
    """
    document = _document(file) if file else None
    value: Any = document.value if document is not None else {}  # Any: YAML
    errors = _unknown(value, type_, ())
    settings: S | None = None
    if not errors:
        try:
            settings = convert(_with(value, given), type_)
            errors = [*_checked(settings), *(check(settings) if check is not None else ())]
        except InvalidObject as invalid:
            errors = [_with_example(error) for error in invalid.errors]
    if settings is None or errors:
        raise InvalidSettings("\n".join(_said(error, document, given) for error in errors))
    return settings


def place(settings: Common) -> tuple[str, str]:
    """Returns the namespace and the name of the Lease."""
    namespace, _, name = settings.lease.partition("/")
    return namespace, name


@dataclass(eq=False)
class Live(Generic[S]):
    """Settings that follow their file. `changed` is called with the new settings, one call after another."""

    read: Callable[[], S]
    file: str
    now: S
    changed: list[Callable[[S], None]] = field(default_factory=list)

    async def follow(self, clock: Clock) -> None:
        """Runs until cancelled. A file that cannot be used is reported once, and changes nothing."""
        seen = self._content()
        while True:
            await clock.sleep(LOOK)
            content = await asyncio.to_thread(self._content)
            if content is not None and content != seen:
                seen = content
                self.reload()

    def reload(self) -> None:
        """Reads the file, and takes over what can change."""
        try:
            found = self.read()
        except InvalidSettings as error:
            log.error("the settings stay as they are: %s", error)
            return
        before: dict[str, Any] = msgspec.to_builtins(self.now)
        after: dict[str, Any] = msgspec.to_builtins(found)
        different = [name for name in after if after[name] != before[name]]
        later = [name for name in different if name not in LIVE]
        if later:
            log.warning("%s: %s: the change takes effect at the next start", self.file, ", ".join(later))
        at_once = [name for name in different if name in LIVE]
        if not at_once:
            return
        kept = {name: before[name] for name in later}
        self.now = msgspec.convert({**after, **kept}, type(self.now))
        log.info("%s: %s: changed", self.file, ", ".join(at_once))
        for tell in self.changed:
            tell(self.now)

    def _content(self) -> bytes | None:
        try:
            return FilePath(self.file).read_bytes() if self.file else None
        except OSError:
            return None  # being replaced, or gone; what it said last holds


def _document(file: str) -> source.Document:
    try:
        documents = source.parse(source.read(FilePath(file)), file)
    except JobFileError as error:
        raise InvalidSettings(str(error).replace("; a job file has at least one job", "")) from None
    if len(documents) > 1 or not isinstance(documents[0].value, dict):
        raise InvalidSettings(f"{file}: must hold one mapping, such as `qps: 50`")
    return documents[0]


def _with(value: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(value)
    for key, setting in given.items():
        first, _, second = key.partition(".")
        inner = merged.get(first)
        merged[first] = {**(inner if isinstance(inner, dict) else {}), second: setting} if second else setting
    return merged


def _unknown(value: Any, type_: Any, at: Path) -> list[Finding]:  # Any: YAML, and a type
    """Returns an error for each field that the settings do not have."""
    if not isinstance(value, dict) or not (isinstance(type_, type) and issubclass(type_, Struct)):
        return []
    hints = get_type_hints(type_)
    names = {info.encode_name: hints[info.name] for info in msgspec.structs.fields(type_)}
    errors = []
    for key, inner in value.items():
        if key not in names:
            errors.append(Finding((*at, key), f"unknown setting{nearest(key, names)}"))
        else:
            errors += _unknown(inner, names[key], (*at, key))
    return errors


def _checked(settings: Common) -> list[Finding]:
    """Returns what is wrong with settings that have the right types."""
    wrong: list[Finding] = []

    def demand(good: bool, path: str, message: str) -> None:
        if not good:
            wrong.append(Finding(tuple(path.split(".")), message))

    kind = KINDS[type(settings)]
    demand(settings.api_version == API_VERSION, "apiVersion", f"write {API_VERSION}")
    demand(settings.kind in ("", kind), "kind", f"is {settings.kind!r}; write {kind}")
    namespace, slash, name = settings.lease.partition("/")
    demand(
        bool(namespace and slash and name) and "/" not in name,
        "lease",
        f"{settings.lease!r} is not NAMESPACE/NAME, such as {NAMESPACE}/muster-scheduler",
    )
    _, colon, port = settings.listen.rpartition(":")
    demand(
        not settings.listen
        or (colon != "" and port.isascii() and port.isdecimal() and 0 < int(port) < 2**16),
        "listen",
        f"{settings.listen!r} is not HOST:PORT, such as 0.0.0.0:8080 or :8080",
    )
    demand(0 <= settings.qps <= 100_000, "qps", f"{settings.qps:g}: write 0 (no limit) to 100000")
    demand(0 <= settings.burst <= 100_000, "burst", f"{settings.burst}: write 0 (as qps) to 100000")
    one_of = "write {}".format
    demand(settings.log.format in FORMATS, "log.format", one_of(" or ".join(FORMATS)))
    demand(settings.log.level in LEVELS, "log.level", one_of(" or ".join(LEVELS)))
    _check_election(settings.leader_election, demand)
    if isinstance(settings, SchedulerSettings | ControllersSettings):
        demand(
            bool(settings.scheduler_names) and all(settings.scheduler_names),
            "schedulerNames",
            f"name at least one, such as {SCHEDULER}",
        )
    if isinstance(settings, SchedulerSettings):
        _check_scheduler(settings, demand)
    return wrong


def _check_election(times: LeaderElection, demand: Callable[[bool, str, str], None]) -> None:
    try:
        lasts, deadline, retry = map(
            duration.parse, (times.lease_duration, times.renew_deadline, times.retry_period)
        )
    except ValueError as error:
        demand(False, "leaderElection", str(error))
        return
    demand(
        0 < retry < deadline < lasts <= 600,
        "leaderElection",
        "write retryPeriod < renewDeadline < leaseDuration ≤ 10m, such as 2s, 10s, 15s",
    )


def _check_scheduler(settings: SchedulerSettings, demand: Callable[[bool, str, str], None]) -> None:
    try:
        selectors.parse(settings.node_selector)
    except ValueError as error:
        demand(False, "nodeSelector", str(error))
    try:
        size = quantity.capacity("memory", settings.journal.size)
    except ValueError as error:
        demand(False, "journal.size", str(error))
    else:
        demand(
            2**20 <= size <= 2**40, "journal.size", f"{settings.journal.size}: write 1Mi to 1Ti, such as 64Mi"
        )
    for name, message in settings.bad_nodes.wrong():
        demand(False, f"badNodes.{name}", message)
    wrong = [name for name in settings.victim_namespaces if not LABEL.fullmatch(name) or len(name) > 63]
    demand(not wrong, "victimNamespaces", f"{wrong[:1]}: write names of namespaces, such as [health-checks]")
    unserved = [name for name in settings.await_pod_groups if name not in settings.scheduler_names]
    demand(not unserved, "awaitPodGroups", f"{unserved[:1]}: write names that schedulerNames has")
    for message in adopted.wrong(settings.adopt_queues):
        demand(False, "adoptQueues", message)
    endpoint = settings.tracing.endpoint
    demand(
        not endpoint or endpoint.startswith(("http://", "https://")),
        "tracing.endpoint",
        f"{endpoint!r} is not a URL, such as http://localhost:4318/v1/traces",
    )


def _with_example(error: Finding) -> Finding:
    name = ".".join(str(step) for step in error.path if isinstance(step, str))
    example = EXAMPLES.get(name)
    found = error.message.replace("`", "")
    return error if example is None else Finding(error.path, f"{found}; write for example {example}")


def _said(error: Finding, document: source.Document | None, given: Mapping[str, Any]) -> str:
    """Returns the error with its place: a flag, or the line of the file."""
    path = ".".join(str(step) for step in error.path if isinstance(step, str))
    if path in given:
        return f"--{FLAGS.get(path, path)}: {error.message}"
    if document is None:
        return str(error)
    found: Finding = document.finding(error.path, error.message)
    return str(found)


#: Values as a file writes them, for settings of another type than expected.
EXAMPLES: Final = {
    "lease": f"{NAMESPACE}/muster-scheduler",
    "listen": '":8080"',
    "qps": "50",
    "burst": "100",
    "log": "{format: json, level: info}",
    "log.format": "json",
    "log.level": "info",
    "leaderElection": "{leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}",
    "leaderElection.leaseDuration": "15s",
    "leaderElection.renewDeadline": "10s",
    "leaderElection.retryPeriod": "2s",
    "schedulerNames": f"[{SCHEDULER}]",
    "nodeSelector": "pool=batch",
    "maxPriority": "0",
    "journal": "{file: /var/lib/muster/journal.jsonl, size: 64Mi}",
    "journal.file": "/var/lib/muster/journal.jsonl",
    "journal.size": "64Mi",
    "tracing": '{endpoint: "http://localhost:4318/v1/traces"}',
    "explanations": "own or all",
    "victimNamespaces": "[health-checks]",
    "adoptQueues": "[volcano, koordinator/kube-system]",
    "awaitPodGroups": "[volcano]",
    "badNodes": "{failures: [rejected], avoidFor: 10m}",
    "badNodes.failures": "[rejected, startError, exit]",
    "badNodes.exitWithin": "10s",
    "badNodes.jobs": "3",
    "badNodes.namespaces": "2",
    "badNodes.avoidFor": "10m",
    "badNodes.atMost": "5%",
    "only": "[gang, podgroup, batchjob]",
    "batchJobs": "{network: auto, programs: auto}",
    "batchJobs.target": "muster, volcano or native",
    "batchJobs.network": "auto, cilium, plain or none",
    "batchJobs.programs": "auto, tetragon or none",
    "batchJobs.mesh": "none or istio",
    "batchJobs.trustDomain": "cluster.local",
    "batchJobs.images": "matched or all",
    "batchJobs.registrySecrets": "[registry-login]",
    "batchJobs.loopbackRegistries": "true or false",
    "batchJobs.latticeJobs": "true or false",
}
#: Flags by the setting in whose place they are given.
FLAGS: Final = {
    "schedulerNames": "scheduler-name",
    "nodeSelector": "node-selector",
    "log.format": "log-format",
    "log.level": "log-level",
    "journal.file": "journal",
    "journal.size": "journal-size",
}

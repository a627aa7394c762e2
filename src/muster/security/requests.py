"""Derives from a compiled draft everything that needs a permit.

Requests are derived from the objects that would be emitted, never from the job file, so a new stage of the
compiler cannot emit anything without a request. What every pod may have (Pod Security Standard *restricted*,
its own entry point, its own volumes and peers) needs no permit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from muster import names
from muster.api.base import Object
from muster.api.fields import Path
from muster.api.templates import pod_templates
from muster.compiler import containers, network, runtime, secrets, spelling
from muster.compiler.draft import Draft
from muster.compiler.facts import Facts
from muster.compiler.workload import Container, Gpu, Workload
from muster.security import ids, metadata

Action = Literal[
    "DeployImage",
    "AllowTagReference",
    "AccessSecret",
    "AccessExternalEndpoint",
    "AccessService",
    "AdmitCaller",
    "OverrideSecurity",
    "AccessVolume",
    "TolerateTaint",
    "UseRuntimeClass",
    "UseQueue",
    "UsePriorityClass",
    "UseScheduler",
    "SetMetadata",
    "AuditOnly",
]
#: Type of the resource of each action.
TYPES: Final[dict[Action, str]] = {
    "DeployImage": "Image",
    "AllowTagReference": "Image",
    "AccessSecret": "SecretPath",
    "AccessExternalEndpoint": "ExternalEndpoint",
    "AccessService": "Service",
    "AdmitCaller": "Caller",
    "OverrideSecurity": "SecurityOverride",
    "AccessVolume": "Volume",
    "TolerateTaint": "Toleration",
    "UseRuntimeClass": "RuntimeClass",
    "UseQueue": "Queue",
    "UsePriorityClass": "PriorityClass",
    "UseScheduler": "Scheduler",
    "SetMetadata": "Metadata",
    "AuditOnly": "Namespace",
}
#: The scheduler of the target volcano. It needs no permit, nor does muster.
_VOLCANO: Final = "volcano"
_QUEUE: Final = ("spec", "queue")
#: Linux capabilities that a container has if it drops none (containerd's default set).
_DEFAULT_CAPABILITIES: Final = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
#: The one capability that *restricted* lets a container add.
_HARMLESS: Final = frozenset({"NET_BIND_SERVICE"})
_TITLES: Final[dict[str, str]] = {
    "DeployImage": "image denied",
    "AllowTagReference": "image tag denied",
    "AccessSecret": "secret access denied",
    "AccessExternalEndpoint": "external endpoint access denied",
    "AccessService": "service access denied",
    "AdmitCaller": "caller denied",
    "OverrideSecurity": "security override denied",
    "AccessVolume": "volume access denied",
    "TolerateTaint": "toleration denied",
    "UseRuntimeClass": "runtime class denied",
    "UseQueue": "queue denied",
    "UsePriorityClass": "priority class denied",
    "UseScheduler": "scheduler denied",
    "SetMetadata": "metadata denied",
    "AuditOnly": "audit denied",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One question: may the workload do `action` to the entity `type` `id`?"""

    action: Action
    type: str
    id: str
    attributes: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: the field of the job file that made it necessary
    path: Path = field(default=(), compare=False)
    #: where in the pod, such as "container trainer"; "" if that says nothing
    where: str = field(default="", compare=False)
    #: why nothing can be asked about it, so that it is denied; "" = it can
    undecided: str = field(default="", compare=False)

    def denied(self, reason: str) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{_TITLES[self.action]}: {self.id!r}{where}: {reason}"


def of_id(action: Action, id_: str, path: Path = (), where: str = "") -> Request:
    """The request for a resource by its id, from which its attributes follow."""
    type_ = TYPES[action]
    try:
        return Request(action, type_, id_, ids.attributes(type_, id_), path, where)
    except spelling.Misspelt as error:
        return Request(action, type_, id_, {}, path, where, f"it cannot be decided: {error}")


def derive(workload: Workload, facts: Facts, draft: Draft) -> list[Request]:
    """Every request of a compiled workload, each once, in a fixed order."""
    asked = [
        *_images(draft),
        *_secrets(draft),
        *_endpoints(draft),
        *_connections(draft),
        *_pod_overrides(workload, draft),
        *_container_overrides(workload, draft),
        *_binaries(workload, facts, draft),
        *_volumes(facts, draft),
        *_nodes(workload, draft),
    ]
    return list(dict.fromkeys(asked))


def of_job(jobs: Sequence[Object], own: str = names.SCHEDULER) -> list[Request]:
    """Every request of the objects of a whole job, each once: what they ask of schedulers and others.

    `own`: the schedulerName of muster's pods.
    """
    specs = [
        *(each["spec"] for each in jobs),
        *(pod["spec"] for each in jobs for _, pod in pod_templates(each)),
    ]
    asked = [each for spec in specs for each in _of_spec(spec, own)]
    for field_, key, value in metadata.emitted(jobs):
        at = ("metadata", field_, key)
        if key == names.QUEUE:
            asked.append(of_id("UseQueue", value, _QUEUE))
        else:
            asked.append(of_id("SetMetadata", f"{key}={value}", at))
    return list(dict.fromkeys(asked))


def _of_spec(spec: Object, own: str) -> Iterator[Request]:
    """What the spec of a pod, of a PodGroup or of one of Volcano's jobs asks of schedulers."""
    spec = spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec
    if queue := spec.get("queue"):
        yield of_id("UseQueue", str(queue), _QUEUE)
    if priority := spec.get("priorityClassName"):
        yield of_id("UsePriorityClass", str(priority), ("spec", "priorityClassName"))
    if (scheduler := spec.get("schedulerName", own)) not in (own, _VOLCANO):
        yield of_id("UseScheduler", str(scheduler), ("spec", "schedulerName"))


def _images(draft: Draft) -> Iterator[Request]:
    for container in _containers(draft):
        reference = str(container["image"])
        path = draft.origins.get((containers.IMAGE, reference), ())
        yield of_id("DeployImage", reference, path)
        if "@" not in reference:
            yield of_id("AllowTagReference", reference, path)


def _secrets(draft: Draft) -> Iterator[Request]:
    for made in _of_kind(draft, "ExternalSecret"):
        spec = made["spec"]
        provider = str(spec["secretStoreRef"]["name"])
        remotes = [entry["remoteRef"]["key"] for entry in spec.get("data", [])]
        remotes += [entry["extract"]["key"] for entry in spec.get("dataFrom", [])]
        for remote in dict.fromkeys(remotes):
            id_ = f"{provider}:{remote}"
            path = draft.origins.get((secrets.QUESTION, id_), ())
            yield of_id("AccessSecret", id_, path)


def _endpoints(draft: Draft) -> Iterator[Request]:
    """Every rule that lets traffic leave the cluster; names of the cluster's own DNS are no endpoints."""
    for made in _of_kind(draft, "CiliumNetworkPolicy"):
        for rule in made["spec"]["egress"]:
            ports = [port for entry in rule.get("toPorts", []) for port in entry["ports"]] or [{}]
            for entity in rule.get("toEntities", []):
                for port in ports:
                    suffix = f":{port['port']}" if port else ""
                    yield _endpoint(draft, f"entity:{entity}{suffix}")
            hosts = [str(name.get("matchName") or name["matchPattern"]) for name in rule.get("toFQDNs", [])]
            hosts += [_host(cidr) for cidr in rule.get("toCIDR", [])]
            for host in hosts:
                for port in ports:
                    yield _endpoint(draft, _id(host, port))
    for made in _of_kind(draft, "NetworkPolicy"):
        for rule in made["spec"]["egress"]:
            for to in rule.get("to", []):
                if "ipBlock" in to:
                    for port in rule.get("ports", [{}]):
                        yield _endpoint(draft, _id(_host(to["ipBlock"]["cidr"]), port))

    for made in _of_kind(draft, "ServiceEntry"):
        for host in made["spec"].get("addresses") or made["spec"]["hosts"]:
            for port in made["spec"]["ports"]:
                yield _endpoint(draft, _id(host, {"port": port["number"]}))


def _id(host: str, port: Object) -> str:
    return spelling.endpoint(host, port.get("port", "*"), str(port.get("protocol", "TCP")))


def _endpoint(draft: Draft, id_: str) -> Request:
    path = draft.origins.get((network.QUESTION, id_), ())
    return of_id("AccessExternalEndpoint", id_, path, str(path[-1]) if path else "")


def _connections(draft: Draft) -> Iterator[Request]:
    """Services that the pods connect to, and workloads of other namespaces that may connect to them.

    Rules name pods by labels, which several Services may have, so `network` says what its rules are for.
    """
    for (question, id_), path in sorted(draft.origins.items()):
        if question == network.CALL:
            yield of_id("AccessService", id_, path)
        elif question == network.CALLER and not id_.startswith(f"{draft.namespace}/"):
            yield of_id("AdmitCaller", id_, path)


def _host(cidr: str) -> str:
    host, _, length = cidr.partition("/")
    return host if length in ("32", "128") else cidr


def _pod_overrides(workload: Workload, draft: Draft) -> Iterator[Request]:
    spec = draft.pod["spec"]
    for name in ("hostNetwork", "shareProcessNamespace", "automountServiceAccountToken"):
        if spec.get(name):
            yield _override(name, (*workload.path, name))
    for sysctl in (spec.get("securityContext") or {}).get("sysctls", []):
        name = f"sysctl:{sysctl['name']}"
        yield _override(name, (*workload.path, "sysctls", sysctl["name"]))


def _container_overrides(workload: Workload, draft: Draft) -> Iterator[Request]:
    paths = {each.name: each.path for each in workload.containers}
    for container in _containers(draft):
        name = str(container["name"])
        at = (*paths.get(name, workload.path), "security")
        context = container.get("securityContext") or {}
        for id_, key in _of_context(context):
            yield _override(id_, (*at, key), f"container {name}")


def _of_context(context: Object) -> Iterator[tuple[str, str]]:
    """(override, field of the job file) of everything beyond Pod Security Standard restricted."""
    if context.get("privileged"):
        yield "privileged", "privileged"
    if context.get("runAsUser") == 0 or not context.get("runAsNonRoot"):
        yield "runAsRoot", "runAsUser" if "runAsUser" in context else "runAsNonRoot"
    if context.get("runAsGroup") == 0:
        yield "runAsRootGroup", "runAsGroup"
    if not context.get("readOnlyRootFilesystem"):
        yield "readWriteRootFilesystem", "readOnlyRootFilesystem"
    if context.get("allowPrivilegeEscalation", True):
        yield "allowPrivilegeEscalation", "allowPrivilegeEscalation"
    for key, field_ in (("seccompProfile", "seccompProfile"), ("appArmorProfile", "apparmorProfile")):
        profile = context.get(key) or {}
        if (type_ := profile.get("type", "Unconfined")) != "RuntimeDefault":
            kind = "seccomp" if key == "seccompProfile" else "apparmor"
            suffix = f":{profile['localhostProfile']}" if type_ == "Localhost" else ""
            yield f"{kind}:{type_}{suffix}", field_
    capabilities = context.get("capabilities") or {}
    for name in capabilities.get("add", []):
        if name not in _HARMLESS:
            yield f"capability:{name}", "capabilities"
    dropped = set(capabilities.get("drop", []))
    if "ALL" not in dropped:
        for name in _DEFAULT_CAPABILITIES:
            if name not in dropped and name not in _HARMLESS:
                yield f"capability:{name}", "dropCapabilities"


def _binaries(workload: Workload, facts: Facts, draft: Draft) -> Iterator[Request]:
    """Programs beyond the containers' entry points; `*` if executions would only be reported."""
    entries = {runtime.entry(each, facts) for each in workload.containers}
    paths = {each.name: each.path for each in workload.containers}
    for container in _containers(draft):
        name = str(container["name"])
        for probe in runtime.PROBES:
            command = container.get(probe, {}).get("exec", {}).get("command", [])
            if command and command[0] not in entries:
                at = (*paths.get(name, workload.path), probe, "exec", "command")
                yield _override(f"allowedBinary:{command[0]}", at, f"{probe} of container {name}")
    named = {path: each for each in workload.containers for path in each.security.binaries}
    for made in _of_kind(draft, "TracingPolicyNamespaced"):
        for kprobe in made["spec"]["kprobes"]:
            for selector in kprobe["selectors"]:
                found = [path for match in selector.get("matchArgs", []) for path in match["values"]]
                if any(action["action"] != "Sigkill" for action in selector["matchActions"]):
                    found.append(runtime.ANY)
                for path in found:
                    if path not in entries:
                        yield _binary(path, named.get(path), workload, facts)


def _binary(path: str, container: Container | None, workload: Workload, facts: Facts) -> Request:
    if container is None:
        unknown = [each for each in workload.containers if not runtime.entry(each, facts)]
        container = unknown[0] if unknown else workload.containers[0]
        where = f"container {container.name}, whose entry point is not known"
        return _override(f"allowedBinary:{path}", (*container.path, "command"), where)
    at = (*container.path, "security", "allowedBinaries")
    return _override(f"allowedBinary:{path}", at, f"container {container.name}")


def _volumes(facts: Facts, draft: Draft) -> Iterator[Request]:
    """Claims that the workload mounts and does not own, under the ids that their owners gave them."""
    own = {made["metadata"]["name"] for made in _of_kind(draft, "PersistentVolumeClaim")}
    ids = {(namespace, each.claim): id_ for (namespace, id_), each in facts.volumes.items()}
    for volume in draft.pod["spec"].get("volumes", []):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim and claim not in own:
            id_ = ids.get((draft.namespace, claim), claim)
            key = f"{draft.namespace}/{id_}"
            yield of_id("AccessVolume", key, draft.origins.get((containers.VOLUME, key), ()))


def _nodes(workload: Workload, draft: Draft) -> Iterator[Request]:
    """Taints that the pods tolerate, but for that of nodes with GPUs, and their RuntimeClass."""
    gpus = [each for each in workload.resources.values() if isinstance(each.what, Gpu)]
    at = {each.id: each.path for gpu in gpus if isinstance(gpu.what, Gpu) for each in gpu.what.tolerations}
    for made in draft.pod["spec"].get("tolerations", []):
        value = None if made["operator"] == "Exists" else str(made["value"])
        id_ = spelling.toleration(made.get("key", ""), value, made.get("effect", ""))
        if id_ != containers.GPU_TAINT.id:
            yield of_id("TolerateTaint", id_, at.get(id_, workload.path))
    if class_ := draft.pod["spec"].get("runtimeClassName"):
        named = (each.path for each in gpus if isinstance(each.what, Gpu) and each.what.runtime_class)
        yield of_id("UseRuntimeClass", str(class_), (*next(named, workload.path), "class"))


def _override(id_: str, path: Path, where: str = "") -> Request:
    return of_id("OverrideSecurity", id_, path, where)


def _containers(draft: Draft) -> Sequence[Object]:
    spec = draft.pod["spec"]
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def _of_kind(draft: Draft, kind: str) -> Iterator[Object]:
    return (made for made in draft.objects if made["kind"] == kind)

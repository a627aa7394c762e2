"""Derives from a compiled draft everything that needs a permit.

Requests are derived from the objects that would be emitted, never from the job file, so a new stage of the
compiler cannot emit anything without a request. What every pod may have (Pod Security Standard *restricted*,
its own entry point, its own volumes and peers) needs no permit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from muster import names
from muster.api.base import Object
from muster.api.fields import Path
from muster.compiler import containers, network, runtime, secrets
from muster.compiler.draft import Draft
from muster.compiler.facts import Facts
from muster.compiler.workload import Workload
from muster.security import metadata
from muster.security.images.reference import InvalidReference, Reference, split

Action = Literal[
    "DeployImage",
    "AllowTagReference",
    "AccessSecret",
    "AccessExternalEndpoint",
    "OverrideSecurity",
    "AccessVolume",
    "UseQueue",
    "UsePriorityClass",
    "UseScheduler",
    "SetMetadata",
    "AuditOnly",
]
#: The schedulers of the targets, which need no permit.
_SCHEDULERS: Final = (names.SCHEDULER, "volcano")
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
    "OverrideSecurity": "security override denied",
    "AccessVolume": "volume access denied",
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

    def denied(self, reason: str) -> str:
        where = f" ({self.where})" if self.where else ""
        return f"{_TITLES[self.action]}: {self.id!r}{where}: {reason}"


def of_id(action: Action, id_: str) -> Request:
    """The request for a resource of which only the id is known; its attributes follow from the id."""
    match action:
        case "DeployImage" | "AllowTagReference":
            return _image(action, id_, ())
        case "AccessSecret":
            provider, _, path = id_.partition(":")
            return Request(action, "SecretPath", id_, {"provider": provider, "path": path})
        case "AccessExternalEndpoint":
            host, _, port = id_.rpartition(":") if not id_.startswith("entity:") else (id_, "", "*")
            attributes = {"host": host or id_, "port": port if host else "*", "protocol": "TCP"}
            return Request(action, "ExternalEndpoint", id_, attributes)
        case "OverrideSecurity":
            return _override(_category(id_), id_, (), "")
        case "AccessVolume":
            namespace, _, name = id_.partition("/")
            return Request(action, "Volume", id_, {"namespace": namespace, "id": name})
        case "UseQueue":
            return Request(action, "Queue", id_)
        case "UsePriorityClass":
            return Request(action, "PriorityClass", id_)
        case "UseScheduler":
            return Request(action, "Scheduler", id_)
        case "SetMetadata":
            key, _, value = id_.partition("=")
            return Request(action, "Metadata", id_, {"key": key, "value": value})
        case "AuditOnly":
            return Request(action, "Namespace", id_)


def _category(override: str) -> str:
    kind = override.partition(":")[0]
    known = {
        "capability": "capability",
        "allowedBinary": "binary",
        "seccomp": "profile",
        "apparmor": "profile",
    }
    pod = ("hostNetwork", "shareProcessNamespace", "automountServiceAccountToken", "sysctl")
    return known.get(kind) or ("pod" if kind in pod else "container")


def derive(workload: Workload, facts: Facts, draft: Draft) -> list[Request]:
    """Every request of a compiled workload, each once, in a fixed order."""
    asked = [
        *_images(draft),
        *_secrets(draft),
        *_endpoints(draft),
        *_pod_overrides(workload, draft),
        *_container_overrides(workload, draft),
        *_binaries(workload, facts, draft),
        *_volumes(facts, draft),
    ]
    return list(dict.fromkeys(asked))


def of_job(jobs: Sequence[Object]) -> list[Request]:
    """Every request of the objects of a whole job, each once: what they ask of schedulers and others."""
    specs = [*(each["spec"] for each in jobs), *(pod["spec"] for pod in metadata.pods(jobs))]
    asked = [each for spec in specs for each in _of_spec(spec)]
    for field_, key, value in metadata.emitted(jobs):
        at = ("metadata", field_, key)
        if key == names.QUEUE:
            asked.append(replace(of_id("UseQueue", value), path=_QUEUE))
        else:
            asked.append(replace(of_id("SetMetadata", f"{key}={value}"), path=at))
    return list(dict.fromkeys(asked))


def _of_spec(spec: Object) -> Iterator[Request]:
    """What the spec of a pod, of a PodGroup or of one of Volcano's jobs asks of schedulers."""
    spec = spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec
    if queue := spec.get("queue"):
        yield replace(of_id("UseQueue", str(queue)), path=_QUEUE)
    if priority := spec.get("priorityClassName"):
        yield replace(of_id("UsePriorityClass", str(priority)), path=("spec", "priorityClassName"))
    if (scheduler := spec.get("schedulerName", names.SCHEDULER)) not in _SCHEDULERS:
        yield replace(of_id("UseScheduler", str(scheduler)), path=("spec", "schedulerName"))


def _images(draft: Draft) -> Iterator[Request]:
    for container in _containers(draft):
        reference = str(container["image"])
        path = draft.origins.get((containers.IMAGE, reference), ())
        yield _image("DeployImage", reference, path)
        if "@" not in reference:
            yield _image("AllowTagReference", reference, path)


def _image(action: Action, text: str, path: Path) -> Request:
    """The attributes are "" if the text is no reference; no job with such an image is compiled."""
    try:
        image = split(text)
    except InvalidReference:
        image = Reference("", "")
    attributes = {
        "registry": image.registry,
        "name": image.repository,
        "tag": image.tag,
        "digest": image.digest,
    }
    return Request(action, "Image", text, attributes, path)


def _secrets(draft: Draft) -> Iterator[Request]:
    for made in _of_kind(draft, "ExternalSecret"):
        spec = made["spec"]
        provider = str(spec["secretStoreRef"]["name"])
        remotes = [entry["remoteRef"]["key"] for entry in spec.get("data", [])]
        remotes += [entry["extract"]["key"] for entry in spec.get("dataFrom", [])]
        for remote in dict.fromkeys(remotes):
            id_ = f"{provider}:{remote}"
            path = draft.origins.get((secrets.QUESTION, id_), ())
            yield Request("AccessSecret", "SecretPath", id_, {"provider": provider, "path": remote}, path)


def _endpoints(draft: Draft) -> Iterator[Request]:
    """Every rule that lets traffic leave the cluster; names of the cluster's own DNS are no endpoints."""
    for made in _of_kind(draft, "CiliumNetworkPolicy"):
        for rule in made["spec"]["egress"]:
            ports = [port for entry in rule.get("toPorts", []) for port in entry["ports"]] or [{}]
            for entity in rule.get("toEntities", []):
                for port in ports:
                    suffix = f":{port['port']}" if port else ""
                    yield _endpoint(draft, f"entity:{entity}{suffix}", f"entity:{entity}", port)
            hosts = [str(name.get("matchName") or name["matchPattern"]) for name in rule.get("toFQDNs", [])]
            hosts += [_host(cidr) for cidr in rule.get("toCIDR", [])]
            for host in hosts:
                for port in ports:
                    yield _endpoint(draft, f"{host}:{port.get('port', '*')}", host, port)
    for made in _of_kind(draft, "NetworkPolicy"):
        for rule in made["spec"]["egress"]:
            for to in rule.get("to", []):
                if "ipBlock" in to:
                    host = _host(to["ipBlock"]["cidr"])
                    for port in rule.get("ports", [{}]):
                        yield _endpoint(draft, f"{host}:{port.get('port', '*')}", host, port)

    for made in _of_kind(draft, "ServiceEntry"):
        for host in made["spec"].get("addresses") or made["spec"]["hosts"]:
            for port in made["spec"]["ports"]:
                number = port["number"]
                yield _endpoint(draft, f"{host}:{number}", host, {"port": number})


def _endpoint(draft: Draft, id_: str, host: str, port: Object) -> Request:
    attributes = {
        "host": host,
        "port": str(port.get("port", "*")),
        "protocol": str(port.get("protocol", "TCP")),
    }
    path = draft.origins.get((network.QUESTION, id_), ())
    where = str(path[-1]) if path else ""
    return Request("AccessExternalEndpoint", "ExternalEndpoint", id_, attributes, path, where)


def _host(cidr: str) -> str:
    host, _, length = cidr.partition("/")
    return host if length in ("32", "128") else cidr


def _pod_overrides(workload: Workload, draft: Draft) -> Iterator[Request]:
    spec = draft.pod["spec"]
    for name in ("hostNetwork", "shareProcessNamespace", "automountServiceAccountToken"):
        if spec.get(name):
            yield _override("pod", name, (*workload.path, name), "")
    for sysctl in (spec.get("securityContext") or {}).get("sysctls", []):
        name = f"sysctl:{sysctl['name']}"
        yield _override("pod", name, (*workload.path, "sysctls", sysctl["name"]), "")


def _container_overrides(workload: Workload, draft: Draft) -> Iterator[Request]:
    paths = {each.name: each.path for each in workload.containers}
    for container in _containers(draft):
        name = str(container["name"])
        at = (*paths.get(name, workload.path), "security")
        context = container.get("securityContext") or {}
        for id_, category, key in _of_context(context):
            yield _override(category, id_, (*at, key), f"container {name}")


def _of_context(context: Object) -> Iterator[tuple[str, str, str]]:
    """(override, category, field of the job file) of everything beyond Pod Security Standard restricted."""
    if context.get("privileged"):
        yield "privileged", "container", "privileged"
    if context.get("runAsUser") == 0 or not context.get("runAsNonRoot"):
        yield "runAsRoot", "container", "runAsUser" if "runAsUser" in context else "runAsNonRoot"
    if context.get("runAsGroup") == 0:
        yield "runAsRootGroup", "container", "runAsGroup"
    if not context.get("readOnlyRootFilesystem"):
        yield "readWriteRootFilesystem", "container", "readOnlyRootFilesystem"
    if context.get("allowPrivilegeEscalation", True):
        yield "allowPrivilegeEscalation", "container", "allowPrivilegeEscalation"
    for key, field_ in (("seccompProfile", "seccompProfile"), ("appArmorProfile", "apparmorProfile")):
        profile = context.get(key) or {}
        if (type_ := profile.get("type", "Unconfined")) != "RuntimeDefault":
            kind = "seccomp" if key == "seccompProfile" else "apparmor"
            suffix = f":{profile['localhostProfile']}" if type_ == "Localhost" else ""
            yield f"{kind}:{type_}{suffix}", "profile", field_
    capabilities = context.get("capabilities") or {}
    for name in capabilities.get("add", []):
        if name not in _HARMLESS:
            yield f"capability:{name}", "capability", "capabilities"
    dropped = set(capabilities.get("drop", []))
    if "ALL" not in dropped:
        for name in _DEFAULT_CAPABILITIES:
            if name not in dropped and name not in _HARMLESS:
                yield f"capability:{name}", "capability", "dropCapabilities"


def _binaries(workload: Workload, facts: Facts, draft: Draft) -> Iterator[Request]:
    """Programs beyond the containers' own; `*` if executions would only be reported."""
    own = {path for each in workload.containers for path in runtime.own_binaries(each, facts)}
    named = {path: each for each in workload.containers for path in each.security.binaries}
    for made in _of_kind(draft, "TracingPolicyNamespaced"):
        for probe in made["spec"]["kprobes"]:
            for selector in probe["selectors"]:
                paths = [path for match in selector.get("matchArgs", []) for path in match["values"]]
                if any(action["action"] != "Sigkill" for action in selector["matchActions"]):
                    paths.append(runtime.ANY)
                for path in paths:
                    if path not in own:
                        yield _binary(path, named.get(path), workload, facts)


def _binary(path: str, container: Any, workload: Workload, facts: Facts) -> Request:  # Any: Container | None
    if container is None:
        unknown = [each for each in workload.containers if not runtime.entry(each, facts)]
        container = unknown[0] if unknown else workload.containers[0]
        where = f"container {container.name}, whose entry point is not known"
        return _override("binary", f"allowedBinary:{path}", (*container.path, "command"), where)
    at = (*container.path, "security", "allowedBinaries")
    return _override("binary", f"allowedBinary:{path}", at, f"container {container.name}")


def _volumes(facts: Facts, draft: Draft) -> Iterator[Request]:
    """Claims that the workload mounts and does not own, under the ids that their owners gave them."""
    own = {made["metadata"]["name"] for made in _of_kind(draft, "PersistentVolumeClaim")}
    ids = {(namespace, each.claim): id_ for (namespace, id_), each in facts.volumes.items()}
    for volume in draft.pod["spec"].get("volumes", []):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim and claim not in own:
            id_ = ids.get((draft.namespace, claim), claim)
            key = f"{draft.namespace}/{id_}"
            attributes = {"namespace": draft.namespace, "id": id_}
            yield Request(
                "AccessVolume", "Volume", key, attributes, draft.origins.get((containers.VOLUME, key), ())
            )


def _override(category: str, id_: str, path: Path, where: str) -> Request:
    attributes = {"category": category, "override": id_}
    return Request("OverrideSecurity", "SecurityOverride", id_, attributes, path, where)


def _containers(draft: Draft) -> Sequence[Object]:
    spec = draft.pod["spec"]
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def _of_kind(draft: Draft, kind: str) -> Iterator[Object]:
    return (made for made in draft.objects if made["kind"] == kind)

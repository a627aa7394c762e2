"""What a workload is: containers, the resources that they refer to, and settings of their pod.

The model is that of Score (`score.dev/v1b1`), extended by probes, security settings, image pull secrets and
typed resources. Every value is already checked for itself; what spans several values is checked by the
compiler. `path` is where a value stands in the developer's file.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from muster.api.base import Object
from muster.api.fields import Path
from muster.compiler import spelling

Direction = Literal["outbound", "inbound", "both"]
Protocol = Literal["TCP", "UDP"]


@dataclass(frozen=True, slots=True)
class Secret:
    """Keys of a secret in a store, such as a path in Vault."""

    #: "" = the default of the namespace
    provider: str
    #: the path in the store; "" = `<namespace>/<resource>`
    remote: str
    #: empty = all that the store has under this path
    keys: tuple[str, ...]
    refresh: str = "1h"
    type: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One host and port that pods connect to."""

    name: str
    #: as `spelling.host`; a name may begin with `*.` for any one label
    host: str
    port: int
    protocol: Protocol = "TCP"
    #: as written, or made from its parts
    url: str = ""

    @property
    def id(self) -> str:
        """What policies call it; a port has one for each protocol."""
        return spelling.endpoint(self.host, self.port, self.protocol)

    @property
    def address(self) -> str:
        return spelling.authority(self.host, self.port)

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address."""
        return spelling.is_address(self.host)


@dataclass(frozen=True, slots=True)
class External:
    """Endpoints outside of the cluster."""

    endpoints: tuple[Endpoint, ...]
    #: a Cilium entity such as `world`, instead of endpoints, and its port (0 = all)
    entity: str = ""
    entity_port: int = 0


@dataclass(frozen=True, slots=True)
class Service:
    """Another workload, which is called, or which may call."""

    namespace: str
    #: "*" = every workload of the mesh
    name: str
    #: that the caller connects to
    port: int = 80


@dataclass(frozen=True, slots=True)
class Volume:
    """A persistent volume. With a size the workload owns it; without, another one does."""

    #: "" = it belongs to this workload alone
    id: str
    namespace: str
    size: str = ""
    storage_class: str = ""
    access_mode: str = "ReadWriteOnce"
    #: of an owned volume: the other workloads that may mount it, `namespace/name` or `*`
    consumers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that a pod tolerates. A key of "" is every key, a value of None every value, an effect of ""
    every effect.
    """

    key: str
    value: str | None
    effect: str
    seconds: int | None = None
    path: Path = field(default=(), compare=False)

    @property
    def id(self) -> str:
        """What policies call it."""
        return spelling.toleration(self.key, self.value, self.effect)

    @property
    def object(self) -> Object:
        """As a PodSpec has it."""
        made: Object = {"key": self.key} if self.key else {}
        made |= {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        if self.effect:
            made["effect"] = self.effect
        return made if self.seconds is None else {**made, "tolerationSeconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPUs, or a share of one, for each container that does not request a number of its own."""

    count: int
    model: str = ""
    tolerations: tuple[Toleration, ...] = ()
    #: percent of each GPU's computing, and a quantity of its memory; 0 and "" = the whole GPU
    compute: int = 0
    memory: str = ""
    #: RuntimeClass of the pods; "" = the cluster's default
    runtime_class: str = ""
    path: Path = ()

    @property
    def shared(self) -> bool:
        return bool(self.compute or self.memory)


@dataclass(frozen=True, slots=True)
class Custom:
    """A resource of a type that muster does not know; its parameters can be referred to."""

    type: str
    params: Mapping[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class Resource:
    """A named resource of the workload."""

    name: str
    path: Path
    #: None = it is declared in a way that cannot be read; the workload is not compiled
    what: Secret | External | Service | Volume | Gpu | Custom | None
    direction: Direction = "outbound"


@dataclass(frozen=True, slots=True)
class File:
    """A file in a container. Exactly one of `text` and `binary` is given."""

    target: str
    path: Path
    text: str | None = None
    binary: bytes | None = None
    mode: int | None = None
    #: whether placeholders are expanded: all, none, or only those written `$${…}`
    expand: Literal["all", "none", "escaped"] = "all"


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory in a container: from a volume resource, or empty."""

    target: str
    path: Path
    #: the resource's name; "" = an empty directory
    resource: str = ""
    sub_path: str = ""
    read_only: bool = False
    medium: str = ""
    size_limit: str = ""


@dataclass(frozen=True, slots=True)
class Security:
    """What a container asks for beyond Pod Security Standard *restricted*, its default."""

    capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ("ALL",)
    privileged: bool = False
    read_only_root: bool = True
    run_as_non_root: bool = True
    run_as_user: int | None = None
    run_as_group: int | None = None
    allow_privilege_escalation: bool = False
    seccomp: str = "RuntimeDefault"
    seccomp_file: str = ""
    apparmor: str = "RuntimeDefault"
    apparmor_file: str = ""
    #: absolute paths, or `*`
    binaries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    path: Path
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[File] = ()
    mounts: Sequence[Mount] = ()
    #: resource → quantity, both maps open-ended
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    #: livenessProbe, readinessProbe, startupProbe as Kubernetes has them
    probes: Mapping[str, Object] = field(default_factory=dict)
    #: secret resources of which every key becomes a variable
    env_from: tuple[str, ...] = ()
    security: Security = field(default_factory=Security)
    #: sidecars run beside the containers and do not keep the pod from ending
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """One pod template's worth of containers. Its name is that of its ServiceAccount and its principal."""

    namespace: str
    name: str
    path: Path
    containers: Sequence[Container]
    resources: Mapping[str, Resource] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False
    share_process_namespace: bool = False
    automount_token: bool = False
    #: names of secret resources, or of providers of credentials
    pull_secrets: tuple[str, ...] = ()
    #: ports of the workload's service: name → (port, targetPort, protocol)
    ports: Mapping[str, tuple[int, int, Protocol]] = field(default_factory=dict)
    #: the workloads of one job reach each other if they share this label's value; "" = they do not
    peers: str = ""
    #: names of all workloads with this value
    gang: tuple[str, ...] = ()
    #: whether its pods stay out of the mesh, because their traffic is too much for its proxies
    outside_mesh: bool = False
    #: values of `${metadata.…}`
    metadata: Mapping[str, Any] = field(default_factory=dict)  # Any: JSON

    def hashed(self, prefix: str, of: str = "") -> str:
        """The name of an object about this workload, or about something that it has."""
        key = f"{self.namespace}/{self.name}" + (f"/{of}" if of else "")
        return f"{prefix}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"

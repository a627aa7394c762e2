"""What the platform adds to a workload: facts about a namespace and its cluster, as plain values.

The compiler reads nothing itself. Its caller first reads these facts from a directory of files or from a
cluster, or takes the defaults.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from muster.names import SCHEDULER

#: A time after every audit.
END: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Image:
    """What is known of an image from its registry."""

    #: `sha256:…` of the index or manifest that the reference leads to; "" if that is not known
    digest: str
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    #: whether a trust policy that enforces has been met, and why not
    trusted: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SharedVolume:
    """A volume that a workload owns and may share."""

    claim: str
    #: `namespace/name` of workloads that its owner admits, or `*`
    consumers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedService:
    """A Service that workloads connect to, and the workloads that its owner admits."""

    #: `namespace/name`, `namespace/*`, `*/name` or `*`
    callers: tuple[str, ...] = ()
    #: labels of its pods; empty = they are named after the Service
    selector: Mapping[str, str] = field(default_factory=dict)
    #: TCP port of the Service → port of its pods, a number or a name
    ports: Mapping[int, int | str] = field(default_factory=dict)


def admits(listed: Iterable[str], namespace: str, name: str) -> bool:
    """Whether a list of `namespace/name`, `namespace/*`, `*/name` and `*` names this workload."""
    return bool({f"{namespace}/{name}", f"{namespace}/*", f"*/{name}", "*"} & set(listed))


@dataclass(frozen=True, slots=True)
class Facts:
    #: namespace → the store of secrets that name none; "" = for all others
    stores: Mapping[str, str] = field(default_factory=lambda: {"": "default"})
    store_kind: Literal["ClusterSecretStore", "SecretStore"] = "ClusterSecretStore"
    #: reference → image; an image that is absent has not been looked up
    images: Mapping[str, Image] = field(default_factory=dict)
    #: (namespace, id) → volume
    volumes: Mapping[tuple[str, str], SharedVolume] = field(default_factory=dict)
    #: (namespace, name) → Service
    services: Mapping[tuple[str, str], SharedService] = field(default_factory=dict)
    #: namespace → until when its denials are only reported, as its annotation says
    audits: Mapping[str, str] = field(default_factory=dict)
    #: when the job is compiled; an audit that has ended by then has no effect
    now: datetime = END
    #: which of these the cluster has; without it nothing is emitted for it
    network: Literal["cilium", "plain", "none"] = "cilium"
    tetragon: bool = True
    istio: bool = False
    #: SPIFFE trust domain of the mesh
    trust_domain: str = "cluster.local"
    #: the schedulerName of muster's pods
    scheduler: str = SCHEDULER

    def store(self, namespace: str) -> str:
        """The store of secrets of this namespace that name none; "" if there is none."""
        return self.stores.get(namespace) or self.stores.get("", "")


#: What the embedded cluster has: nothing that enforces networks or programs.
EMBEDDED_FACTS: Final = Facts(network="none", tetragon=False)

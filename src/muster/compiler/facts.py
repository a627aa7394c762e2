"""What the platform adds to a workload: facts about a namespace and its cluster, as plain values.

The compiler reads nothing itself. Its caller reads these facts first, from a directory of files, from a
cluster, or takes the defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from muster.api.fields import FieldError


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
class Facts:
    #: namespace → the store of secrets that name none; "" = for all others
    stores: Mapping[str, str] = field(default_factory=lambda: {"": "default"})
    store_kind: Literal["ClusterSecretStore", "SecretStore"] = "ClusterSecretStore"
    #: reference → image; an image that is absent has not been looked up
    images: Mapping[str, Image] = field(default_factory=dict)
    #: (namespace, id) → volume
    volumes: Mapping[tuple[str, str], SharedVolume] = field(default_factory=dict)
    #: (namespace, name) of a workload → workloads that it admits
    admitted: Mapping[tuple[str, str], frozenset[tuple[str, str]]] = field(default_factory=dict)
    #: which of these the cluster has; without it nothing is emitted for it
    network: Literal["cilium", "plain", "none"] = "cilium"
    tetragon: bool = True
    istio: bool = False
    external_secrets: bool = True
    #: SPIFFE trust domain of the mesh
    trust_domain: str = "cluster.local"

    def store(self, namespace: str) -> str:
        """The store of secrets of this namespace that name none; "" if there is none."""
        return self.stores.get(namespace) or self.stores.get("", "")


#: What the embedded cluster has: nothing that enforces networks or programs.
EMBEDDED_FACTS: Final = Facts(network="none", tetragon=False)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a workload: what, where, why, and how to mend it. Only errors stop it."""

    error: FieldError
    #: a YAML patch for the developer's file, or "" if the message says it all
    patch: str = ""
    #: a Cedar policy for the administrator, or ""
    permit: str = ""
    severity: Literal["error", "warning", "hint"] = "error"

"""Which features of its node a pod needs that not every kubelet has (KEP-5328).

A kubelet declares in `status.declaredFeatures` which features it has, of those that are still new. A pod does
not say which it needs: that follows from its spec. Pods that need one run only on nodes that declare it, so
on no node whose kubelet is too old to declare anything. All other features that Kubernetes 1.37 declares
concern updates of running pods, or claims of devices, which muster does not support.

Source: kubernetes 1.37, component-helpers/nodedeclaredfeatures/features, each `InferForScheduling`.
"""

from collections.abc import Iterable
from typing import Final

from muster.api.core_v1 import PodSpec

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES: Final = "UserNamespacesHostNetworkSupport"
BIND_OPTIONS: Final = "VolumeBindMountOptions"
#: All that a pod can need; what else a node declares is not read.
KNOWN: Final = frozenset((RESTART_ALL, USER_NAMESPACES, BIND_OPTIONS))
_RESTART_ALL: Final = "RestartAllContainers"
#: Of a mount of a volume.
OPTIONS: Final = "bindMountOptions"


def needed(spec: PodSpec) -> tuple[str, ...]:
    """Returns the features that the nodes of such a pod must declare, by name."""
    containers = (*spec.containers, *spec.init_containers)
    found = []
    if any(rule.get("action") == _RESTART_ALL for each in containers for rule in each.restart_policy_rules):
        found.append(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        found.append(USER_NAMESPACES)
    if any(mount.get(OPTIONS) for each in containers for mount in each.volume_mounts):
        found.append(BIND_OPTIONS)
    return tuple(found)


def declared(features: Iterable[str]) -> tuple[str, ...]:
    """Returns what of a node's declared features pods can need."""
    return tuple(sorted(KNOWN.intersection(features)))

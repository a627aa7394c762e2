"""What all pods on this machine share: the resources and services of its agent."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from muster.api.core_v1 import Pod
from muster.embedded.node import volumes
from muster.embedded.node.environment import Lookup
from muster.embedded.node.isolation import Isolation
from muster.embedded.node.logs import Logs
from muster.kube.client import Client
from muster.kube.clock import Clock


class Devices(Protocol):
    """Assigns GPUs to containers."""

    def take(self, pod_uid: str, container: str, node: str, count: int) -> list[str]: ...

    def done(self, pod_uid: str, container: str) -> None: ...

    def share(self, pod_uid: str, node: str, device: int) -> str: ...

    def has(self, node: str) -> bool: ...

    def give_back(self, pod_uid: str) -> None: ...


@dataclass(frozen=True)
class Machine:
    client: Client
    clock: Clock
    root: Path
    isolation: Isolation
    logs: Logs
    #: the hosts file of a pod
    hosts: Callable[[Pod], Path]
    lookup: Callable[[Pod], Lookup]
    devices: Devices
    links: volumes.Links
    #: soft limit of open files that containers get
    open_files: int = 0
    #: file mode creation mask that containers get
    umask: int = 0o022
    #: held by the worker that starts a container
    turnstile: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def lock(self) -> Path:
        """The lock file that the agent holds for as long as it reads the output of containers."""
        return self.root / "lock"

    @property
    def home(self) -> Path:
        """The state directory."""
        return self.root.parent

    @property
    def stage(self) -> Path:
        return self.root / "stage"

    def directory(self, pod_uid: str) -> Path:
        return self.root / "pods" / pod_uid

    def volumes(self, pod_uid: str) -> Path:
        return self.directory(pod_uid) / "volumes"

    def forget(self, pod_uid: str) -> None:
        """Removes the pod's directory, and its volumes wherever they are."""
        volumes.remove(self.volumes(pod_uid))
        shutil.rmtree(self.directory(pod_uid), ignore_errors=True)

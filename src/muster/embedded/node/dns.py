"""The DNS names of the pods of a Kubernetes namespace, kept in the namespace's hosts file.

A pod's name exists from the moment the pod has an address, which is before its first process starts, until
the pod object is deleted or its JobSet has finished. It outlasts the end of the pod, unlike in Kubernetes: a
coordinator may end before a worker looks it up for the last time. If two pods would have the same name, as a
pod that is slow to end and its replacement do, the newest has it.

A Service's name resolves to the pods that its selector matches, as the name of a headless Service does: to
those that are ready and not being deleted, or with publishNotReadyAddresses to all that have not ended.

Pods with the same hostAliases share a file of their own: the namespace's records and their aliases. A name
that is an alias has no other address there, as /etc/hosts comes before the DNS.
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from muster.api.base import is_true
from muster.api.core_v1 import Pod, Service
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JobSet
from muster.api.times import seconds
from muster.embedded.node.environment import hostname_of
from muster.embedded.node.hosts import HostsTable

log = logging.getLogger(__name__)
_DOMAIN: Final = "svc.cluster.local"
_MARK: Final = "@"  # in no name of a namespace, in no uid
_NAMES: Final = 8  # most names of one record for aliases, so that it fits


class Names:
    """The hosts files of all namespaces. Call the methods for all changes of pods, Services and JobSets."""

    def __init__(self, directory: Path, now: Callable[[], float]) -> None:
        self._directory, self._now = directory, now
        self._tables: dict[str, HostsTable] = {}  # by name of the file
        self._aliases: defaultdict[str, dict[str, _Aliases]] = defaultdict(dict)  # by namespace and digest
        self._pods = _Pods()
        self._services: defaultdict[str, _Services] = defaultdict(_Services)  # by namespace
        self._finished: set[str] = set()  # JobSets' keys

    def file(self, pod: Pod) -> Path:
        """The hosts file that the pod sees."""
        aliases = self._aliases[pod.metadata.namespace].get(_digest(pod))
        return self._table(pod.metadata.namespace if aliases is None else aliases.file).path

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None, "a change has at least one side"
        known = self._pods.by_uid.get(pod.metadata.uid)
        if new is None or not new.status.pod_ip or _jobset_of(new) in self._finished:
            if known is not None:
                self._forget(known)
            return
        self._pods.keep(new)
        if known is None and new.spec.host_aliases:
            self._use_aliases(new)
        if known is None or _claim(known) != _claim(new):
            self._name_all(new.metadata.namespace, hostname_of(new))
        if known is None or _standing(known) != _standing(new):
            self._list_in_services(known, new)

    def service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None, "a change has at least one side"
        namespace = service.metadata.namespace
        self._services[namespace].keep(service.metadata.name, new)
        for pod in self._pods.of_namespace(namespace):
            if any(side is not None and _matches(side, pod) for side in (old, new)):
                listed = new is not None and _listed(pod, new)
                self._list(pod, service.metadata.name, listed=listed)

    def jobset_changed(self, old: JobSet | None, new: JobSet | None) -> None:
        jobset = new or old
        assert jobset is not None, "a change has at least one side"
        if new is None:
            self._finished.discard(jobset.key)
        elif new.status.terminal_state and jobset.key not in self._finished:
            self._finished.add(jobset.key)
            for pod in self._pods.of_jobset(jobset.key):
                self._forget(pod)

    def settle(self) -> None:
        """Removes names of an earlier muster. Call it once all existing objects have been reported."""
        used = {each.file for aliases in self._aliases.values() for each in aliases.values()}
        for path in self._directory.iterdir():
            if _MARK in path.name and path.name not in used:
                path.unlink()
            else:
                self._table(path.name).drop_unclaimed()

    def close(self) -> None:
        for table in self._tables.values():
            table.close()

    def _forget(self, pod: Pod) -> None:
        self._pods.forget(pod)
        self._name_all(pod.metadata.namespace, hostname_of(pod))
        self._drop(pod.metadata.namespace, pod.metadata.uid)
        for name in self._services[pod.metadata.namespace].of(pod):
            self._list(pod, name, listed=False)
        self._disuse_aliases(pod)

    def _name_all(self, namespace: str, host: str) -> None:
        """Assigns the names of host `host` to the pods that hold them."""
        claims = sorted(self._pods.of_host(namespace, host), key=_seniority)
        holders = {pod.spec.subdomain: pod for pod in claims}  # the newest of each subdomain
        staying = [pod for pod in holders.values() if pod.metadata.deletion_timestamp is None]
        alone = min(staying or holders.values(), key=_seniority, default=None)
        for pod in holders.values():  # before the drops: no name is without an address
            if named := names_of(pod, alone=pod is alone):
                self._set(pod, pod.metadata.uid, named)
        for pod in claims:
            if holders[pod.spec.subdomain] is not pod:
                self._drop(namespace, pod.metadata.uid)

    def _list_in_services(self, known: Pod | None, pod: Pod) -> None:
        services = self._services[pod.metadata.namespace]
        selecting = services.of(pod)
        for name in services.of(known) if known is not None else ():
            if name not in selecting:  # the pod's labels have changed
                self._list(pod, name, listed=False)
        for name in selecting:
            self._list(pod, name, listed=_listed(pod, services.by_name[name]))

    def _list(self, pod: Pod, service: str, *, listed: bool) -> None:
        key, namespace = f"{pod.metadata.uid}/{service}", pod.metadata.namespace
        if listed:
            self._set(pod, key, _forms(service, namespace))
        else:
            self._drop(namespace, key)

    def _set(self, pod: Pod, key: str, names: list[str]) -> None:
        namespace = pod.metadata.namespace
        try:
            self._table(namespace).set(key, pod.status.pod_ip, names)
            for aliases in self._aliases[namespace].values():
                aliases.set(self._table(aliases.file), key, pod.status.pod_ip, names)
        except (OSError, ValueError) as error:
            log.error("%s: its name cannot be made known: %s", pod.key, error)

    def _drop(self, namespace: str, key: str) -> None:
        for file in (namespace, *(each.file for each in self._aliases[namespace].values())):
            self._table(file).drop(key)

    def _use_aliases(self, pod: Pod) -> None:
        """Makes the file of the pod's aliases, unless another pod has the same."""
        namespace, digest = pod.metadata.namespace, _digest(pod)
        found = self._aliases[namespace].get(digest)
        if found is None:
            found = self._aliases[namespace][digest] = _Aliases(pod, f"{namespace}{_MARK}{digest}")
            table = self._table(found.file)
            try:
                for number, (address, names) in enumerate(found.records):
                    table.set(f"{_MARK}{number}", address, names)
                for key, address, names in list(self._table(namespace).records()):
                    found.set(table, key, address, names)
            except (OSError, ValueError) as error:
                log.error("%s: its hostAliases cannot be made known: %s", pod.key, error)
        found.users.add(pod.metadata.uid)

    def _disuse_aliases(self, pod: Pod) -> None:
        """Removes the file of the pod's aliases after the last pod that has them."""
        aliases = self._aliases[pod.metadata.namespace]
        found = aliases.get(_digest(pod))
        if found is None:
            return
        found.users.discard(pod.metadata.uid)
        if not found.users:
            del aliases[_digest(pod)]
            table = self._tables.pop(found.file)
            table.close()
            table.path.unlink(missing_ok=True)

    def _table(self, file: str) -> HostsTable:
        """The hosts file of this name: a namespace, or one with a digest of aliases."""
        if file not in self._tables:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._tables[file] = HostsTable(self._directory / file, self._now)
        return self._tables[file]


class _Aliases:
    """The hostAliases that some pods of a namespace have in common, and the pods that use their file."""

    def __init__(self, pod: Pod, file: str) -> None:
        self.file = file
        self.users: set[str] = set()  # uids
        self.records: list[tuple[str, list[str]]] = []
        for alias in pod.spec.host_aliases:
            names = [str(name) for name in alias.get("hostnames") or ()]
            for first in range(0, len(names), _NAMES):
                self.records.append((str(alias.get("ip")), names[first : first + _NAMES]))
        self._named = {name for _, names in self.records for name in names}

    def set(self, table: HostsTable, key: str, address: str, names: list[str]) -> None:
        """Sets a record of the namespace, without the names that are aliases."""
        if left := [name for name in names if name not in self._named]:
            table.set(key, address, left)
        else:
            table.drop(key)


def names_of(pod: Pod, *, alone: bool = True) -> list[str]:
    """All names that resolve to the pod, the full one first; with `alone` also its bare host name."""
    host, sub = hostname_of(pod), pod.spec.subdomain
    below = _forms(f"{host}.{sub}", pod.metadata.namespace) if sub else []
    return [*below, host] if alone else below


def _forms(name: str, namespace: str) -> list[str]:
    return [f"{name}.{namespace}.{_DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}", name]


def _digest(pod: Pod) -> str:
    """Of the pod's hostAliases; it does not tell pods apart that have the same."""
    return hashlib.sha256(msgspec.json.encode(pod.spec.host_aliases, order="sorted")).hexdigest()[:16]


def _claim(pod: Pod) -> tuple[str, bool]:
    """The fields that determine a pod's names and may change."""
    return pod.status.pod_ip, pod.metadata.deletion_timestamp is None


def _standing(pod: Pod) -> tuple[object, ...]:
    """The fields that determine which Services list the pod."""
    return *_claim(pod), pod.terminal, is_true(pod.status.conditions, "Ready"), pod.metadata.labels


def _seniority(pod: Pod) -> tuple[bool, float, str]:
    """Sort key of pods: those that are being deleted before the others, then the oldest first."""
    meta = pod.metadata
    return meta.deletion_timestamp is None, seconds(meta.creation_timestamp), meta.uid


def _listed(pod: Pod, service: Service) -> bool:
    if pod.terminal or not _matches(service, pod):
        return False
    ready = is_true(pod.status.conditions, "Ready") and pod.metadata.deletion_timestamp is None
    return ready or service.spec.publish_not_ready_addresses


def _matches(service: Service, pod: Pod) -> bool:
    """Whether the selector matches. Without a selector it matches none: addresses have another source."""
    return bool(service.spec.selector) and service.spec.selector.items() <= pod.metadata.labels.items()


def _jobset_of(pod: Pod) -> str:
    """The key of the pod's JobSet; "" if it has none."""
    name = pod.metadata.labels.get(JOBSET_NAME)
    return f"{pod.metadata.namespace}/{name}" if name else ""


class _Pods:
    """The pods that have names, indexed by the keys for lookups: key → pods by uid."""

    def __init__(self) -> None:
        self.by_uid: dict[str, Pod] = {}
        self._by: dict[str, dict[str, Pod]] = {}

    def of_host(self, namespace: str, host: str) -> list[Pod]:
        return self._of(f"host/{namespace}/{host}")

    def of_jobset(self, key: str) -> list[Pod]:
        return self._of(f"jobset/{key}")

    def of_namespace(self, namespace: str) -> list[Pod]:
        return self._of(f"namespace/{namespace}")

    def keep(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.by_uid[uid] = pod
        for key in self._keys(pod):
            self._by.setdefault(key, {})[uid] = pod

    def forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.by_uid.pop(uid, None)
        for key in self._keys(pod):
            self._by[key].pop(uid)
            if not self._by[key]:
                del self._by[key]

    def _of(self, key: str) -> list[Pod]:
        return list(self._by.get(key, {}).values())

    def _keys(self, pod: Pod) -> list[str]:
        """The pod's index keys. They do not change during the pod's life."""
        namespace = pod.metadata.namespace
        keys = [f"namespace/{namespace}", f"host/{namespace}/{hostname_of(pod)}"]
        return [*keys, f"jobset/{jobset}"] if (jobset := _jobset_of(pod)) else keys


class _Services:
    """The Services of one namespace, indexed by a label that they select."""

    def __init__(self) -> None:
        self.by_name: dict[str, Service] = {}
        self._by_label: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def keep(self, name: str, service: Service | None) -> None:
        before = self.by_name.pop(name, None)
        if before is not None and before.spec.selector:
            self._by_label[min(before.spec.selector.items())].discard(name)
        if service is not None and service.spec.selector:
            self.by_name[name] = service
            self._by_label[min(service.spec.selector.items())].add(name)

    def of(self, pod: Pod) -> list[str]:
        """The Services that select the pod and may list it."""
        selected = pod.metadata.labels.items() & self._by_label.keys()  # visits the smaller of the two
        candidates = [name for item in selected for name in self._by_label[item]]
        return [name for name in sorted(candidates) if _matches(self.by_name[name], pod)]

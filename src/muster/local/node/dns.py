"""Which names the pods of a Kubernetes namespace have, kept in its hosts file.

A name exists from the moment its pod has an address, which is before its first process starts, until the
pod object is deleted or its JobSet has finished; not when the pod ends. That is kinder than Kubernetes: a
coordinator may end before a worker looks it up for the last time.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JobSet
from muster.local.node.environment import hostname_of
from muster.local.node.hosts import HostsTable

log = logging.getLogger(__name__)
_DOMAIN = "svc.cluster.local"


class Names:
    """Feed it all changes of pods and JobSets; `file` is what pods of a namespace see as /etc/hosts."""

    def __init__(self, directory: Path, now: Callable[[], float]) -> None:
        self._directory, self._now = directory, now
        self._tables: dict[str, HostsTable] = {}
        self._pods: dict[str, dict[str, Pod]] = {}  # JobSet's key → pods by uid
        self._finished: set[str] = set()

    def file(self, namespace: str) -> Path:
        return self._table(namespace).path

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None, "a change has at least one side"
        meta = pod.metadata
        jobset = f"{meta.namespace}/{meta.labels[JOBSET_NAME]}" if JOBSET_NAME in meta.labels else ""
        if new is None:
            if meta.namespace in self._tables:
                self._table(meta.namespace).drop(meta.uid)
            if jobset:
                self._pods.get(jobset, {}).pop(meta.uid, None)
            return
        if not new.status.pod_ip:
            return
        if jobset:
            self._pods.setdefault(jobset, {})[meta.uid] = new
        if jobset not in self._finished:
            self._set(new)

    def jobset_changed(self, old: JobSet | None, new: JobSet | None) -> None:
        jobset = new or old
        assert jobset is not None, "a change has at least one side"
        if new is None:
            self._finished.discard(jobset.key)
            self._pods.pop(jobset.key, None)
        elif new.status.terminal_state and jobset.key not in self._finished:
            self._finished.add(jobset.key)
            for uid in self._pods.get(jobset.key, {}):
                self._table(jobset.metadata.namespace).drop(uid)

    def settle(self) -> None:
        """All pods that exist have been told: what an earlier muster wrote of others goes."""
        for path in self._directory.iterdir():
            self._table(path.name).drop_unclaimed()

    def close(self) -> None:
        for table in self._tables.values():
            table.close()

    def _set(self, pod: Pod) -> None:
        try:
            self._table(pod.metadata.namespace).set(pod.metadata.uid, pod.status.pod_ip, names_of(pod))
        except (OSError, ValueError) as error:
            log.error("%s: its name cannot be made known: %s", pod.key, error)

    def _table(self, namespace: str) -> HostsTable:
        if namespace not in self._tables:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._tables[namespace] = HostsTable(self._directory / namespace, self._now)
        return self._tables[namespace]


def names_of(pod: Pod) -> list[str]:
    """All names that lead to the pod, the full one first."""
    host, sub, namespace = hostname_of(pod), pod.spec.subdomain, pod.metadata.namespace
    if not sub:
        return [host]
    base = f"{host}.{sub}"
    return [f"{base}.{namespace}.{_DOMAIN}", f"{base}.{namespace}.svc", f"{base}.{namespace}", base, host]

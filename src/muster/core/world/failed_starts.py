"""Which nodes pods keep off because pods have failed there at their start.

A pod fails at its start if its node rejects it, or in other ways that a setting names. The *origin* of the
pod (its gang, or the Job whose pods are gangs of their own) then keeps off the node: for a time that doubles
with each further failure there, and after that it takes the node only if no other will do.

Nothing in one failure says whether the pod or the node is at fault. A node is suspected if the pods of
several origins of several tenants have failed there, and these origins have not failed on other nodes as
well. All gangs then avoid it for a while. A tenant can make up origins but no other tenants, so it cannot
make others avoid a node. Besides, no more than a share of the nodes is avoided at a time, those with most
origins against them. The suspects beyond that are taken last.

A node that is ready or schedulable again after it was not, and one that is removed, starts afresh.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from muster.core.words.events import StartFailed
from muster.core.words.gang import Avoidance, NodeName

#: Origins that are remembered, and nodes of each; the oldest are forgotten first.
_ORIGINS: Final = 4096
_NODES: Final = 16
#: An origin whose pods have failed on more nodes than this says nothing about any of them.
_WITNESS: Final = 2


class KeepOff(NamedTuple):
    """Nodes that pods must not use for now, and nodes that they use last."""

    avoided: tuple[NodeName, ...] = ()
    last: tuple[NodeName, ...] = ()


ANYWHERE: Final = KeepOff()


@dataclass(frozen=True, slots=True)
class _Failure:
    """The last failure of an origin on a node that counts, and how many there were."""

    tenant: str
    times: int
    at: float
    until: float
    message: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A node that is suspected: the number of origins and tenants, and until when it is avoided."""

    origins: int
    tenants: int
    until: float


@dataclass(slots=True)
class FailedStarts:
    """What is remembered, and what follows from it since the last `settle`."""

    rules: Avoidance = field(default_factory=Avoidance)
    #: nodes that all gangs avoid, and those that they take last
    suspects: dict[NodeName, Suspect] = field(default_factory=dict)
    avoided: frozenset[NodeName] = frozenset()
    last: frozenset[NodeName] = frozenset()
    #: whether anything is remembered, so that `settle` may change something
    active: bool = False
    #: when something of this ends
    due: float = inf
    #: which nodes an origin keeps off by itself, as of the last `settle`
    of_origin: dict[str, KeepOff] = field(default_factory=dict)
    _failures: dict[str, dict[NodeName, _Failure]] = field(default_factory=dict)
    _origins: dict[NodeName, set[str]] = field(default_factory=dict)
    #: origins of which something has changed
    _news: set[str] = field(default_factory=set)
    #: the number of nodes at the last `settle`
    _size: int = 0

    def record(self, event: StartFailed) -> None:
        """Remember a failure.

        One on a node that its origin keeps off already does not count: the pod was bound before, or the
        event is repeated.
        """
        self.active = True
        failures = self._failures.pop(event.origin, {})
        self._failures[event.origin] = failures
        before = failures.get(event.node)
        if before is not None and event.at < before.until:
            return
        recent = before is not None and event.at < before.at + self.rules.remembered
        times = before.times + 1 if before is not None and recent else 1
        until = event.at + min(self.rules.first * 2.0 ** min(times - 1, 30), self.rules.longest)
        failures.pop(event.node, None)
        failures[event.node] = _Failure(event.tenant, times, event.at, until, event.message)
        self._origins.setdefault(event.node, set()).add(event.origin)
        self._news.add(event.origin)
        if len(failures) > _NODES:
            self._drop(event.origin, next(iter(failures)))
        if len(self._failures) > _ORIGINS:
            oldest = next(iter(self._failures))
            for node in [*self._failures[oldest]]:
                self._drop(oldest, node)

    def follow(self, rules: Avoidance) -> None:
        """Avoid nodes by these rules from the next `settle` on."""
        if rules != self.rules:
            self.rules, self.due, self.active = rules, -inf, True

    def forget(self, node: NodeName) -> None:
        """Forget what has failed on a node."""
        for origin in [*self._origins.get(node, ())]:
            self._drop(origin, node)

    def settle(self, now: float, nodes: int) -> tuple[set[str], frozenset[NodeName]]:
        """Bring everything up to date. Return the origins and the nodes for which something has changed.

        `nodes`: how many there are.
        """
        if now < self.due and not self._news and (nodes == self._size or not self.suspects):
            return set(), frozenset()
        changed, self._news, self._size = self._news, set(), nodes
        for origin, failures in self._failures.items() if now >= self.due else ():
            if any(self._ends(failure) <= now for failure in failures.values()):
                changed.add(origin)
        for origin in changed:
            self._settle_origin(origin, now)
        before = self.avoided, self.last
        self._settle_nodes(now)
        self.due = min(
            (
                self._ends(failure, now)
                for failures in self._failures.values()
                for failure in failures.values()
            ),
            default=inf,
        )
        self.due = min([self.due, *(suspect.until for suspect in self.suspects.values())])
        self.active = bool(self._failures)
        return changed, (before[0] ^ self.avoided) | (before[1] ^ self.last)

    def of(self, origin: str) -> KeepOff:
        """Which nodes an origin keeps off by itself, as of the last `settle`."""
        return self.of_origin.get(origin, ANYWHERE)

    def told(self, origin: str, tenants: Container[str]) -> dict[NodeName, str]:
        """Why an origin keeps off each node, where a pod of these tenants has failed.

        Others may have been in a gang of this name, when PodGroups of several namespaces were one gang.
        """
        failures = self._failures.get(origin, {})
        known = ((node, failures[node]) for node in self.of(origin).avoided if node in failures)
        return {node: failure.message for node, failure in known if failure.tenant in tenants}

    def accused(self, node: NodeName) -> str:
        """Say why all keep off a node. No origin of another tenant is named."""
        suspect = self.suspects.get(node)
        if suspect is None:  # what has failed there was forgotten since
            return f"node {node} is avoided: pods failed there at their start"
        who = f"{suspect.origins} jobs of {suspect.tenants} namespaces"
        how = "is avoided" if node in self.avoided else "is used last"
        return f"node {node} {how}: pods of {who} failed there at their start"

    def _ends(self, failure: _Failure, now: float = -inf) -> float:
        """When the next thing about a failure ends: that its node is barred, or that it counts."""
        return failure.until if failure.until > now else failure.at + self.rules.remembered

    def _settle_origin(self, origin: str, now: float) -> None:
        failures = self._failures.get(origin, {})
        for node in [n for n, f in failures.items() if max(f.until, f.at + self.rules.remembered) <= now]:
            self._drop(origin, node)
        failures = self._failures.get(origin, {})
        self._news.discard(origin)
        if not failures:
            self.of_origin.pop(origin, None)
            return
        barred = {node for node, failure in failures.items() if failure.until > now}
        self.of_origin[origin] = KeepOff(tuple(sorted(barred)), tuple(sorted(failures.keys() - barred)))

    def _settle_nodes(self, now: float) -> None:
        self.suspects = {}
        for node, origins in self._origins.items():
            if len(origins) >= self.rules.origins:
                suspect = self._suspect(node, origins)
                if suspect is not None and suspect.until > now:
                    self.suspects[node] = suspect
        worst = sorted(self.suspects, key=lambda node: (-self.suspects[node].origins, node))
        most = int(self.rules.share * self._size + 1e-9)
        self.avoided, self.last = frozenset(worst[:most]), frozenset(worst[most:])

    def _suspect(self, node: NodeName, origins: Iterable[str]) -> Suspect | None:
        against = [
            self._failures[origin][node] for origin in origins if len(self._failures[origin]) <= _WITNESS
        ]
        tenants = {failure.tenant for failure in against}
        if len(against) < self.rules.origins or len(tenants) < self.rules.tenants:
            return None
        return Suspect(len(against), len(tenants), max(failure.at for failure in against) + self.rules.lasts)

    def _drop(self, origin: str, node: NodeName) -> None:
        failures, origins = self._failures[origin], self._origins[node]
        del failures[node]
        origins.discard(origin)
        if not failures:
            del self._failures[origin]
        if not origins:
            del self._origins[node]
        self._news.add(origin)

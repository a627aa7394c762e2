"""Pods on nodes as other pods see them: labels, host ports, anti-affinity that holds against new pods.

The ledger notes every pod here along with its charge, for facts and trials alike, so that constraints are
always checked against the same account as the amounts. Noting is one entry in a log. Only questions that a
caller asks ("how many pods that match this term does each node have?") are computed, each as one vector over
the nodes; a repeated question reads only new entries. A cluster without such questions pays only for the log.

Entries name columns, which are valid until columns move. The account behind the log is by node name, and
also keeps pods on nodes that have no column.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from muster.core.words.amounts import Sums
from muster.core.words.events import NOTHING, Footprint
from muster.core.words.gang import HostPort, NodeName, Operator, PodTerm, Requirement
from muster.core.world.labels import Domains, satisfied
from muster.core.world.nodes import Ints, Nodes, Times, Where, owned, recent

#: Columns in the log before it is cleared together with all cached answers. An array counts as all of its
#: columns.
BOUND: Final = 65_536
#: Questions kept; the least recently used is dropped first. At 10,000 nodes and 50,000 pods one takes 90 kB.
_KEPT: Final = 256
#: Footprints kept beyond twice as many as there are pods.
_SPARE: Final = 1024
#: Addresses that stand for all addresses of a node.
_ANY: Final = ("", "0.0.0.0")


@dataclass(frozen=True, slots=True)
class Matching:
    """Pods that every one of these terms selects, whatever their keys."""

    terms: tuple[PodTerm, ...]
    #: pods that are being deleted count too
    leaving: bool = True

    def answers(self, footprint: Footprint) -> bool:
        return (self.leaving or not footprint.leaving) and all(
            selects(term, footprint) for term in self.terms
        )


@dataclass(frozen=True, slots=True)
class Carrying:
    """Pods with this required anti-affinity."""

    term: PodTerm

    def answers(self, footprint: Footprint) -> bool:
        return self.term in footprint.pod_anti_affinity


@dataclass(frozen=True, slots=True)
class Using:
    """Pods with a host port that collides with one of these."""

    ports: tuple[HostPort, ...]

    def answers(self, footprint: Footprint) -> bool:
        return any(collide(mine, theirs) for mine in self.ports for theirs in footprint.ports)


def seen(footprint: Footprint) -> Footprint:
    """What other pods see of a pod: all but its devices."""
    if footprint.device is None and not footprint.devices:
        return footprint
    if not (footprint.namespace or footprint.ports or footprint.pod_anti_affinity or footprint.leaving):
        return NOTHING
    return replace(footprint, device=None, devices=())


Question = Matching | Carrying | Using


def selects(term: PodTerm, footprint: Footprint) -> bool:
    """Whether a term selects a pod by namespace and labels; the key of the term is ignored."""
    if not footprint.namespace:
        return False
    if term.namespaces is not None and footprint.namespace not in term.namespaces:
        return False
    return satisfied(term.labels, dict(footprint.labels))


def collide(one: HostPort, other: HostPort) -> bool:
    """Whether two host ports exclude each other on a node."""
    if (one.number, one.protocol) != (other.number, other.protocol):
        return False
    return one.address == other.address or one.address in _ANY or other.address in _ANY


@dataclass(slots=True)
class _Answer:
    """How many pods that answer a question each column has."""

    count: Ints
    position: int = -1
    #: by number of the footprint, whether it answers: one byte each, as there may be as many as pods
    known: bytearray = field(default_factory=bytearray)


#: Anti-affinity that pods carry.
Terms = tuple[PodTerm, ...]


class Footprints:
    def __init__(self, nodes: Nodes) -> None:
        self.domains = Domains(nodes)
        self._nodes = nodes
        self._names = nodes.names
        self._numbers: dict[Footprint, int] = {}
        self._footprints: list[Footprint] = []
        #: by number of the footprint: pods per node, as of `_folded`
        self._on: list[Sums[NodeName]] = []
        self._log: list[tuple[int, Where, Times]] = []
        self._logged = 0  # columns in the log
        self._start = 0  # position of the log's first entry
        self._folded = 0  # entries of the log that `_on` has
        self._answers: dict[Question, _Answer] = {}
        #: required anti-affinity of pods that are, or recently were, on nodes; replaced when some is dropped
        self.carried = AntiAffinity()

    def note(self, where: Where, times: Times, footprint: Footprint) -> Terms:
        """Note `times` more (or fewer) of these pods.

        Returns their anti-affinity that was not known before, which a trial has to `forget` when it ends.
        """
        if self._names is not self._nodes.names or self._logged >= BOUND:
            self._begin_afresh()
        if (footprint := seen(footprint)) is NOTHING:
            return ()
        number = self._numbers.get(footprint)
        if number is None:
            number = self._numbers[footprint] = len(self._footprints)
            self._footprints.append(footprint)
            self._on.append(Sums())
        if not isinstance(times, int):
            assert isinstance(where, np.ndarray)
            where, times = owned(where), owned(times)
        self._logged += len(where) if isinstance(where, np.ndarray) else 1
        self._log.append((number, where, times))
        return tuple([term for term in footprint.pod_anti_affinity if self.carried.add(term)])

    def forget(self, terms: Terms) -> None:
        """Forget anti-affinity that only a trial has added, as the last entries are undone."""
        for term in terms:
            self.carried.remove(term)

    @property
    def position(self) -> int:
        """Changes whenever pods are noted."""
        return self._start + len(self._log)

    def count(self, question: Question) -> Ints:
        """How many pods on each column answer the question, int32. Read it, do not keep it."""
        self._nodes.steps += 1
        if self._names is not self._nodes.names:
            self._begin_afresh()
        answer = recent(self._answers, question, lambda _: _Answer(np.zeros(0, np.int32)), _KEPT)
        self._catch_up(question, answer)
        return answer.count

    def _catch_up(self, question: Question, answer: _Answer) -> None:
        for footprint in self._footprints[len(answer.known) :]:
            answer.known.append(question.answers(footprint))
        if answer.position < self._start:
            self._recount(answer)
        else:
            for number, where, times in self._log[answer.position - self._start :]:
                if answer.known[number] and not isinstance(where, str):
                    answer.count[where] += times
        answer.position = self.position

    def drop_gone(self, pods: int) -> None:
        """Drop footprints that no pod has, if there are many more than pods; answers that are in use stay."""
        if len(self._footprints) <= 2 * pods + _SPARE:
            return
        if self._names is not self._nodes.names:
            self._begin_afresh()
            return
        self._answers = {q: answer for q, answer in self._answers.items() if answer.position > self._start}
        for question, answer in self._answers.items():
            self._catch_up(question, answer)
        self._compact()

    def _recount(self, answer: _Answer) -> None:
        self._fold()
        answer.count = np.zeros(len(self._nodes), np.int32)
        column = self._nodes.column
        for number, on in enumerate(self._on):
            if answer.known[number]:
                for name, times in on.items():
                    if (found := column.get(name)) is not None:
                        answer.count[found] += times

    def _fold(self) -> None:
        """Bring the account by name up to date with the log."""
        for number, where, times in self._log[self._folded :]:
            on = self._on[number]
            if isinstance(where, np.ndarray):
                assert isinstance(times, np.ndarray)
                for column, n in zip(where.tolist(), times.tolist(), strict=True):
                    on.count(self._names[column], n)
            else:
                assert isinstance(times, int)
                on.count(self._names[where] if isinstance(where, int) else where, times)
        self._folded = len(self._log)

    def _begin_afresh(self) -> None:
        """Columns have moved, or the log is full: keep the account of pods, and drop what is only cached."""
        self._answers.clear()
        self._compact()
        self._names = self._nodes.names

    def _compact(self) -> None:
        """Drop the log, which all answers have read, and footprints that no pod has."""
        self._fold()
        self._start += len(self._log)
        self._log, self._folded, self._logged = [], 0, 0
        kept = [number for number, on in enumerate(self._on) if on]
        for answer in self._answers.values():
            answer.known = bytearray([answer.known[number] for number in kept])
        self._footprints = [self._footprints[number] for number in kept]
        self._on = [self._on[number] for number in kept]
        self._numbers = {footprint: number for number, footprint in enumerate(self._footprints)}
        self.carried = self.carried.only(
            {term for footprint in self._footprints for term in footprint.pod_anti_affinity}
        )


class AntiAffinity:
    """Required anti-affinity of pods on nodes, indexed by labels of the pods that it may select.

    A term that requires a label is looked up only for pods with that label.
    """

    def __init__(self, terms: Mapping[PodTerm, int] | None = None, arrived: int = 0) -> None:
        """`terms`, each with its number by order of arrival; `arrived`: how many have ever arrived."""
        self._terms: dict[PodTerm, int] = {}
        self._by_label: dict[tuple[str, str | None], dict[PodTerm, None]] = {}
        self._others: dict[PodTerm, None] = {}
        self._known: dict[Footprint, frozenset[PodTerm]] = {}
        self._arrived = arrived
        #: the number of the last known term, 0 without any: all that arrived later are forgotten
        self.as_of = 0
        for term, number in (terms or {}).items():
            self._enter(term, number)

    def only(self, terms: Set[PodTerm]) -> "AntiAffinity":
        """A copy with only these terms."""
        kept = {term: number for term, number in self._terms.items() if term in terms}
        return AntiAffinity(kept, self._arrived)

    def add(self, term: PodTerm) -> bool:
        """Add a term. Return whether it was not known."""
        if term in self._terms:
            return False
        self._arrived += 1
        self._enter(term, self._arrived)
        return True

    def remove(self, term: PodTerm) -> None:
        if self._terms.pop(term, None) is None:
            return
        self.as_of = next(reversed(self._terms.values()), 0)
        self._known.clear()
        for where in self._where(term):
            del where[term]

    def _enter(self, term: PodTerm, number: int) -> None:
        self._terms[term] = self.as_of = number
        self._known.clear()
        for where in self._where(term):
            where[term] = None

    def _where(self, term: PodTerm) -> list[dict[PodTerm, None]]:
        """The tables in which a term is kept: by label, or that of all other terms."""
        wanted = _wanted(term.labels)
        return [self._by_label.setdefault(label, {}) for label in wanted] or [self._others]

    def selecting(self, footprint: Footprint) -> frozenset[PodTerm]:
        """The terms that select this pod, and so keep it off."""
        found = self._known.get(footprint)
        if found is None:
            if len(self._known) >= BOUND:
                self._known.clear()
            candidates = dict(self._others)
            for key, value in footprint.labels:
                candidates.update(self._by_label.get((key, value), {}))
                candidates.update(self._by_label.get((key, None), {}))
            found = frozenset(term for term in candidates if selects(term, footprint))
            self._known[footprint] = found
        return found


def _wanted(requirements: Iterable[Requirement]) -> list[tuple[str, str | None]]:
    """Labels of which every selected pod has at least one; value None: any value. Empty: not known."""
    for requirement in requirements:
        if requirement.operator is Operator.IN:
            return [(requirement.key, value) for value in requirement.values]
    for requirement in requirements:
        if requirement.operator is Operator.EXISTS:
            return [(requirement.key, None)]
    return []

"""What the claims of pods ask of devices: so that devices are told apart by it, and expressions evaluated.

A question is an expression, a list of tolerations, or an attribute that a constraint compares: each is
answered for all kinds of devices. How many claims and questions are kept is bounded, for each namespace and
in all, so that one namespace keeps no other from asking.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from muster.core.words.devices import ClaimShape
from muster.translate.devices.claims import Asked
from muster.translate.devices.kinds import Wanted

#: Different claims, and different questions of these, that are kept: a cluster has a few templates. Gangs
#: with others wait. From half of them on, those are forgotten that no gang has.
MOST: Final = 2_000
MOST_QUESTIONS: Final = 4_000
#: The same for the claims of one namespace.
MOST_OF_NAMESPACE: Final = 200
MOST_QUESTIONS_OF_NAMESPACE: Final = 400


@dataclass(slots=True)
class _Kept:
    """Claims, and their questions."""

    claims: dict[ClaimShape, Asked] = field(default_factory=dict)
    questions: set[str] = field(default_factory=set)

    def has_room(self, more: Iterable[Asked], claims: int, questions: int) -> bool:
        new = {each.shape: each for each in more if each.shape not in self.claims}
        asked = {question for each in new.values() for question in _questions(each)}
        return len(self.claims) + len(new) <= claims and len(self.questions | asked) <= questions

    def add(self, more: Iterable[Asked]) -> None:
        for each in more:
            self.claims[each.shape] = each
            self.questions.update(_questions(each))


class Asks:
    def __init__(self) -> None:
        #: by expression that holds of no device, why
        self.faults: dict[str, str] = {}
        #: whether `wanted` may have changed since this was cleared
        self.changed = False
        self._all, self._of = _Kept(), dict[str, _Kept]()
        #: namespaces with claims for which there was no room, and whether the namespace has too many itself
        self._refused: dict[str, bool] = {}
        #: whether claims were added since the last `keep`, and there are many
        self._grown = False

    def add(self, namespace: str, asked: Iterable[Asked]) -> str:
        """Takes in what the claims of a pod ask for; returns why there is no room for it, "" if there is."""
        new = [*asked]
        own = self._of.get(namespace) or _Kept()
        if all(each.shape in own.claims for each in new):
            return ""
        if not own.has_room(new, MOST_OF_NAMESPACE, MOST_QUESTIONS_OF_NAMESPACE):
            self._refused[namespace] = True
            return (
                "the claims of its namespace ask for devices in too many ways: more than "
                f"{MOST_OF_NAMESPACE} claims that differ, or {MOST_QUESTIONS_OF_NAMESPACE} expressions, "
                "tolerations and attributes; let several gangs have the same"
            )
        if not self._all.has_room(new, MOST, MOST_QUESTIONS):
            self._refused.setdefault(namespace, False)
            return "the claims of waiting gangs ask for devices in too many ways"
        self.changed |= any(each.shape not in self._all.claims for each in new)
        self._of[namespace] = own
        for kept in (own, self._all):
            kept.add(new)
        self._grown |= 2 * len(self._all.claims) > MOST or 2 * len(self._all.questions) > MOST_QUESTIONS
        return ""

    @property
    def many(self) -> bool:
        """Whether it is time to forget what no gang asks for."""
        return self._grown or bool(self._refused)

    def keep(self, shapes: Mapping[str, Set[ClaimShape]]) -> set[str]:
        """Forgets all claims but these, by namespace; returns the namespaces whose gangs have room again."""
        self._grown = False
        before, self._all = self._all, _Kept()
        of, self._of = self._of, {}
        for namespace, known in of.items():
            kept = [each for shape, each in known.claims.items() if shape in shapes.get(namespace, ())]
            if kept:
                self._of[namespace] = own = _Kept()
                own.add(kept)
                self._all.add(kept)
        freed = len(self._all.claims) < len(before.claims)
        self.changed |= freed
        shrunk = {name for name, known in of.items() if self._count(name) < len(known.claims)}
        again = {name for name, own in self._refused.items() if (name in shrunk if own else freed)}
        self._refused = {name: own for name, own in self._refused.items() if name not in again}
        return again

    def _count(self, namespace: str) -> int:
        return len(self._of[namespace].claims) if namespace in self._of else 0

    def want(self, wanted: Wanted) -> None:
        """Adds what is asked for."""
        for each in self._all.claims.values():
            wanted.add(each)


def _questions(asked: Asked) -> Iterator[str]:
    yield from asked.expressions
    yield from asked.tolerations
    yield from (f"attribute/{name}" for name in asked.attributes)

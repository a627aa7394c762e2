"""Decides which gangs and pods a text may name, by the namespace whose users read it.

The core explains a gang with the names of all gangs that matter. Whoever may read one namespace need not know
what runs in another: unless the administrator shows all names, a gang or pod of another namespace is called
`another namespace's gang`, and times that tell when it starts are left out. Texts name gangs and pods as
`namespace/name`; so a word is such a name if what is before its slash is a namespace that exists. (Keys of
labels and resources have a domain there, which has dots, as no namespace does.)

Everything that muster writes into a namespace about another one passes through here: explanations and the
conditions of pods (`translate.status`), the notes of evictions, Events, and errors of writes elsewhere.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from muster.core.words.gang import GangId

GANG: Final = "gang"
POD: Final = "pod"

#: `namespace/name`, or `namespace/name/stage`, as a word of its own
_NAME: Final = re.compile(r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/[a-z0-9][\w.:/-]*(?<![.:])")
#: when a gang that is named before is expected to start (`core.reservations.answer`)
_TIME: Final = re.compile(r" at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What texts in a namespace may name: what is in it; or, with `everything`, all there is."""

    #: whether a word that looks so is `namespace/name`
    known: Callable[[str], bool] = lambda name: True
    everything: bool = False

    def may_name(self, name: str, own: Collection[str]) -> bool:
        """Whether a text that users of the namespaces `own` read may name a gang or pod."""
        return self.everything or name.partition("/")[0] in own

    def gang(self, name: GangId, own: Collection[str]) -> str:
        """Returns how such a text calls a gang."""
        return name if self.may_name(name, own) else other(GANG)

    def text(self, text: str, own: Collection[str], what: str = GANG) -> str:
        """Returns the text without names of other namespaces' gangs (or pods: `what`)."""
        if self.everything or "/" not in text:
            return text

        def called(match: re.Match[str]) -> str:
            hidden = match[1] not in own and self.known(match[0])
            return other(what) if hidden else match[0]

        told = _NAME.sub(called, text)
        if told == text:
            return text
        several = rf"{other(what)}(?:(?:, | and ){other(what)})+"
        return re.sub(several, partial(_several, what), _TIME.sub(" later", told))

    def gangs(self, names: Collection[GangId], own: Collection[str]) -> list[str]:
        """Returns a list of gangs: those that may be named, then how many others there are."""
        named = [str(name) for name in names if self.may_name(name, own)]
        hidden = len(names) - len(named)
        return named + ([others(GANG, hidden)] if hidden else [])


#: Where all names are shown: to the only user of a laptop, to those who read the cluster themselves.
EVERYTHING: Final = Disclosure(everything=True)


def other(what: str) -> str:
    return f"another namespace's {what}"


def others(what: str, count: int) -> str:
    return other(what) if count == 1 else f"{count} {what}s of other namespaces"


def _several(what: str, match: re.Match[str]) -> str:
    return others(what, match[0].count(other(what)))

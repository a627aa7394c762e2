"""GangGroups: several of Koordinator's gangs that form one gang, since each names all of them.

The annotation `…/groups` is a JSON list of `namespace/name`. The first of them in order is the gang's *home*:
the gang is read, recorded and named there, in that namespace. All PodGroups of one GangGroup must have the
same list, and all must exist; otherwise the gang does not start. If a gang has no PodGroup, its pods have the
list (`described.py`).

Source: koordinator, apis/extension/coscheduling.go; docs/proposals/scheduling/20220901-gangGroup.md.
"""

from functools import lru_cache
from typing import Final

import msgspec

from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.scheduling import PodGroup

#: (namespace, name) of a PodGroup.
Name = tuple[str, str]
_DECODE: Final = msgspec.json.Decoder(list[str]).decode


def home(group: PodGroup) -> Name:
    """Returns the PodGroup at which the gang is read: itself, unless it names others."""
    return named(group)[0]


def named(group: PodGroup) -> tuple[Name, ...]:
    """Returns the PodGroups of its GangGroup in order; only itself if it names none, or none readable."""
    own = (group.metadata.namespace, group.metadata.name)
    text = group.metadata.annotations.get(GROUPS, "")
    names = _read(text) if text else ()
    return names if own in names else (own,)


def error(group: PodGroup) -> str:
    """Returns what is wrong with the list; "" if nothing is."""
    text = group.metadata.annotations.get(GROUPS, "")
    own = f"{group.metadata.namespace}/{group.metadata.name}"
    if not text or tuple(own.split("/")) in _read(text):
        return ""
    if not _read(text):
        return f'{GROUPS} is {text[:80]!r}; write a JSON list of namespace/name, as ["{own}", "ns/other"]'
    return f"{GROUPS} names other PodGroups and not {own} itself"


def agree(group: PodGroup, text: str) -> bool:
    """Whether a pod that writes `text` names no GangGroup, or the same as its PodGroup, whose list counts."""
    return not text or _read(text) == named(group)


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[Name, ...]:
    """Parses the list; returns an empty tuple if any part of it cannot be read."""
    try:
        found = {tuple(name.split("/")) for name in _DECODE(text)}
    except msgspec.DecodeError:
        return ()
    if not all(len(name) == 2 and all(name) for name in found):
        return ()
    return tuple(sorted((name[0], name[1]) for name in found))

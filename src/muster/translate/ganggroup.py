"""GangGroups: several of Koordinator's gangs that form one gang, since each names all of them.

The annotation `…/groups` is a JSON list of `namespace/name`. A GangGroup exists while all the PodGroups of a
list exist and have this same list. What a PodGroup writes about others, in its own namespace or in another,
changes nothing about them: unless they agree, it is a gang of its own, which is Invalid. The first PodGroup
of a GangGroup in order is its *home*: there the gang is read, recorded and named, in that namespace. If a
gang has no PodGroup, its pods have the list (`described.py`).

Source: koordinator, apis/extension/coscheduling.go; docs/proposals/scheduling/20220901-gangGroup.md.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from muster.api.base import Resource
from muster.api.koordinator_v1alpha1 import GROUPS

#: (namespace, name) of a PodGroup.
Name = tuple[str, str]
#: Most PodGroups of a GangGroup, and most characters of a list: a hundred names of any length.
MOST: Final = 100
LONGEST: Final = MOST * 321
_DECODE: Final = msgspec.json.Decoder(list[str]).decode


def named(group: Resource) -> tuple[Name, ...]:
    """Returns the PodGroups that its list names, in order; only itself if it has none, or none readable."""
    own = (group.metadata.namespace, group.metadata.name)
    text = group.metadata.annotations.get(GROUPS, "")
    names = _read(text) if text else ()
    return names if own in names else (own,)


def agreeing(group: Resource, groups: Mapping[Name, Resource]) -> list[Name]:
    """Returns those that its list names and that have the same list, in order; without itself."""
    names, own = named(group), (group.metadata.namespace, group.metadata.name)
    if len(names) < 2:
        return []
    return [
        name
        for name in names
        if name != own and (other := groups.get(name)) is not None and named(other) == names
    ]


def members(group: Resource, groups: Mapping[Name, Resource]) -> tuple[Name, ...]:
    """Returns the PodGroups of the GangGroup that it is one of, in order; none unless all of them agree."""
    names = named(group)
    return names if len(names) > 1 and len(agreeing(group, groups)) == len(names) - 1 else ()


def error(group: Resource, groups: Mapping[Name, Resource]) -> str:
    """Returns why it is one of no GangGroup, although it has a list of several; "" if nothing is wrong.

    A PodGroup that does not exist and one that does not agree are not told apart: who writes a list need not
    have the right to know what there is in another namespace.
    """
    text = group.metadata.annotations.get(GROUPS, "")
    own = f"{group.metadata.namespace}/{group.metadata.name}"
    if not text:
        return ""
    if len(text) > LONGEST:
        return f"{GROUPS} has {len(text)} characters; a list has at most {LONGEST}"
    count, names = _parse(text)
    if not count:
        return f'{GROUPS} is {text[:80]!r}; write a JSON list of namespace/name, as ["{own}", "ns/other"]'
    if count > MOST:
        return f"{GROUPS} names {count} PodGroups; a GangGroup has at most {MOST}"
    if tuple(own.split("/")) not in names:
        return f"{GROUPS} names other PodGroups and not {own} itself"
    lacking = sorted({*named(group)} - {*agreeing(group, groups)} - {tuple(own.split("/"))})
    if not lacking:
        return ""
    first, rest = "/".join(lacking[0]), f" (and {len(lacking) - 1} more)" if lacking[1:] else ""
    return f"{GROUPS} names {first}{rest}, which does not exist or has another list; write the same on all"


def agree(group: Resource, text: str) -> bool:
    """Whether a pod that writes `text` names no GangGroup, or the same as its PodGroup, whose list counts."""
    return not text or _read(text) == named(group)


def _read(text: str) -> tuple[Name, ...]:
    """Parses a list; returns an empty tuple if any part of it cannot be read, or if it is above a limit."""
    return _parse(text)[1] if len(text) <= LONGEST else ()


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[int, tuple[Name, ...]]:
    """Returns how many PodGroups a list names, 0 if it cannot be read; and the names, unless too many."""
    try:
        found = {tuple(name.split("/", 2)) for name in _DECODE(text)}
    except (msgspec.DecodeError, RecursionError):
        return 0, ()
    if not all(len(name) == 2 and all(name) for name in found):
        return 0, ()
    return len(found), tuple(sorted((name[0], name[1]) for name in found)) if len(found) <= MOST else ()

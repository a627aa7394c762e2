"""GangGroups: several of Koordinator's gangs that are one, since each names all of them.

The annotation `…/groups` is a JSON list of `namespace/name`. The first of them in order is the gang's
*home*: the gang is read, recorded and named there, in that namespace. All PodGroups of one GangGroup must
say the same, and all must be there, or the gang does not start: half of a list is no agreement. Of a gang
without a PodGroup its pods say it (`described.py`).

Source: koordinator, apis/extension/coscheduling.go; docs/proposals/scheduling/20220901-gangGroup.md.
"""

from functools import lru_cache
from typing import Final

import msgspec

from muster.api.base import ObjectMeta
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.scheduling import PodGroup

#: (namespace, name) of a PodGroup.
Name = tuple[str, str]
_DECODE: Final = msgspec.json.Decoder(list[str]).decode


def home(group: PodGroup) -> Name:
    """The PodGroup at which the gang is read: itself, unless it names others."""
    return named(group)[0]


def named(group: PodGroup) -> tuple[Name, ...]:
    """The PodGroups of its GangGroup in order; itself alone if it names none, or none that can be read."""
    own = (group.metadata.namespace, group.metadata.name)
    text = group.metadata.annotations.get(GROUPS, "")
    names = _read(text) if text else ()
    return names if own in names else (own,)


def error(group: PodGroup) -> str:
    """What is wrong with the list; "" if nothing is."""
    text = group.metadata.annotations.get(GROUPS, "")
    own = f"{group.metadata.namespace}/{group.metadata.name}"
    if not text or tuple(own.split("/")) in _read(text):
        return ""
    if not _read(text):
        return f'{GROUPS} is {text[:80]!r}; write a JSON list of namespace/name, as ["{own}", "ns/other"]'
    return f"{GROUPS} names other PodGroups and not {own} itself"


def agree(group: PodGroup, pod: ObjectMeta) -> bool:
    """Whether a pod says nothing of a GangGroup, or the same as its PodGroup, which is what counts."""
    text = pod.annotations.get(GROUPS, "")
    return not text or _read(text) == named(group)


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[Name, ...]:
    """Nothing if any of it cannot be read."""
    try:
        found = {tuple(name.split("/")) for name in _DECODE(text)}
    except msgspec.DecodeError:
        return ()
    if not all(len(name) == 2 and all(name) for name in found):
        return ()
    return tuple(sorted((name[0], name[1]) for name in found))

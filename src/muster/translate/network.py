"""Reads a group's network topology rules: Koordinator's annotations and `muster.dev/exclusive`.

They may be on the group object or on its pods (or their template); the group object takes precedence.
Pods with different rules are refused: one gang is placed in one way. A rule that names an unknown layer is
refused too, unless it is only a preference; a preference causes a warning (the Gang record's
`status.warnings`, and `muster why`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import lcm
from typing import Final

import msgspec

from muster import names
from muster.api.base import ObjectMeta, mark
from muster.api.core_v1 import Pod
from muster.api.koordinator_v1alpha1 import TOPOLOGY_INDEX, TOPOLOGY_SPEC, NetworkTopologySpec
from muster.api.natural import natural
from muster.core.placement.topology.rules import resolve
from muster.core.words.gang import MOST_PLACES, Code, Gang, Gate, Gather, Strategy
from muster.core.world.nodes import UNLIMITED
from muster.translate.world import World

#: Most rules of a gang, and most characters of them; a topology has few layers.
MOST_RULES: Final = 32
LONGEST_RULES: Final = 16_384
#: Most characters of a layer's name.
_LONGEST_LAYER: Final = 253
_STRATEGIES: Final = {strategy.value: strategy for strategy in Strategy}
_DECODE: Final = msgspec.json.Decoder(NetworkTopologySpec).decode


@dataclass(frozen=True, slots=True)
class Wish:
    gather: tuple[Gather, ...] = ()
    exclusive: str = ""
    #: Invalid if the rules cannot be honoured
    refusal: Gate | None = None
    warnings: tuple[str, ...] = ()

    def of(self, gang: Gang) -> Gang:
        """Returns the gang with these rules."""
        if not (self.gather or self.exclusive):
            return gang
        return replace(gang, gather=self.gather, exclusive=self.exclusive)


_NONE: Final = Wish()


def wish(groups: Iterable[ObjectMeta], members: Iterable[tuple[str, str]], world: World) -> Wish:
    """Returns the rules of a gang, from one group object or several; `members`: those of its pods."""
    own, theirs = set(map(rules, groups)), set(members)
    found = []
    for i, key in enumerate((TOPOLOGY_SPEC, names.EXCLUSIVE)):
        said = {texts[i] for texts in own if texts[i]}
        if len(said) > 1:
            return Wish(refusal=Gate(Code.INVALID, f"its groups differ in {key}; write the same on all"))
        said = said or {texts[i] for texts in theirs if texts[i]}
        if len(said) > 1:
            return Wish(refusal=Gate(Code.INVALID, f"its pods differ in {key}; write it on the group"))
        found.append(said.pop() if said else "")
    return _read(found[0], found[1], world) if any(found) else _NONE


def rules(meta: ObjectMeta) -> tuple[str, str]:
    """Returns the rules as an object writes them: Koordinator's, and the exclusive layer."""
    return meta.annotations.get(TOPOLOGY_SPEC, ""), mark(meta, names.EXCLUSIVE) or ""


def _read(spec: str, exclusive: str, world: World) -> Wish:
    try:
        gather = tuple(_rules(spec)) if spec else ()
    except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors too
        return Wish(refusal=Gate(Code.INVALID, f"{TOPOLOGY_SPEC}: {error}"))
    layers = world.layers
    if len(exclusive) > _LONGEST_LAYER:
        why = f"{names.EXCLUSIVE} has {len(exclusive)} characters; a layer has at most {_LONGEST_LAYER}"
        return Wish(refusal=Gate(Code.INVALID, why))
    found = resolve(gather, exclusive, layers.chain)
    if not found.error:
        idle = (
            (f"{TOPOLOGY_SPEC} has no gatherStrategy, and asks for nothing",) if spec and not gather else ()
        )
        return Wish(found.gather, found.exclusive, warnings=(*found.warnings, *idle))
    why = found.error
    if layers.error:
        why = f"the ClusterNetworkTopology default cannot be used: {layers.error}"
    elif not layers.chain:
        why += " (layers are defined by the ClusterNetworkTopology default)"
    return Wish(gather, exclusive, Gate(Code.INVALID, why), found.warnings)


def _rules(text: str) -> Iterable[Gather]:
    """Parses the rules. Raises ValueError."""
    if len(text) > LONGEST_RULES:
        raise ValueError(f"has {len(text)} characters; write at most {LONGEST_RULES}")
    found, together = _DECODE(text).gather_strategy, 1
    if len(found) > MOST_RULES:
        raise ValueError(f"gatherStrategy has {len(found)} rules; write at most {MOST_RULES}")
    for position, rule in enumerate(found):
        at = f"gatherStrategy[{position}]"
        if not rule.layer:
            raise ValueError(f"{at}.layer is missing")
        if len(rule.layer) > _LONGEST_LAYER:
            raise ValueError(f"{at}.layer has {len(rule.layer)} characters; it has at most {_LONGEST_LAYER}")
        if rule.strategy and rule.strategy not in _STRATEGIES:
            raise ValueError(f"{at}.strategy is {rule.strategy!r}; write {' or '.join(_STRATEGIES)}")
        if rule.pod_count_multiple < 0:
            raise ValueError(f"{at}.podCountMultiple is {rule.pod_count_multiple}; write a number above 1")
        if not rule.strategy and rule.pod_count_multiple <= 1:
            raise ValueError(f"{at} has neither strategy nor podCountMultiple")
        together = lcm(together, max(rule.pod_count_multiple, 1))
        if together > MOST_PLACES:
            said = f"{at}.podCountMultiple is {rule.pod_count_multiple}"
            most = f"only gangs of {together} pods and more could satisfy; muster plans at most {MOST_PLACES}"
            raise ValueError(f"{said}, which, with those before it, {most}")
        yield Gather(rule.layer, _STRATEGIES.get(rule.strategy), max(rule.pod_count_multiple, 1))


def ranks(count: int, indexes: Mapping[int, int]) -> tuple[int, ...]:
    """Returns the order of a pod set's places by their pods' indexes; pods without an index are last."""
    return tuple(indexes.get(place, UNLIMITED) for place in range(count)) if indexes else ()


def index(pod: Pod) -> int | None:
    """Returns the position of a pod in its gang."""
    return natural(pod.metadata.annotations.get(TOPOLOGY_INDEX))

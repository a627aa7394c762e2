"""Reads a group's network topology rules: Koordinator's annotations and `muster.dev/exclusive`.

They may be on the group object or on its pods (or their template). What a template or one of several
PodGroups says is a rule of that part alone, unless all parts say the same. A PodGroup takes precedence over
its pods; without it, pods with different rules are refused, as one PodGroup is placed in one way. A rule that
names an unknown layer is refused too, unless it is only a preference; a preference causes a warning (the Gang
record's `status.warnings`, and `muster why`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Final

import msgspec

from muster import names
from muster.api.base import ObjectMeta, mark
from muster.api.core_v1 import Pod
from muster.api.koordinator_v1alpha1 import TOPOLOGY_INDEX, TOPOLOGY_SPEC, NetworkTopologySpec
from muster.api.natural import natural
from muster.core.placement.topology.rules import resolve
from muster.core.words.gang import MOST_PLACES, Code, Gang, Gate, Gather, Strategy, Subgroup
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
    #: by part, the rules for its own pods
    parts: Mapping[str, tuple[Gather, ...]] = field(default_factory=dict)

    def of(self, gang: Gang) -> Gang:
        """Returns the gang with these rules. A part is a subgroup, or else a pod set that becomes one."""
        if not (self.gather or self.exclusive or self.parts):
            return gang
        known = {subgroup.name: subgroup for subgroup in gang.subgroups}
        pod_sets = tuple(
            replace(p, subgroup=p.name) if p.name in self.parts and not p.subgroup else p
            for p in gang.pod_sets
        )
        names = dict.fromkeys([*known, *(p.subgroup for p in pod_sets if p.subgroup)])
        subgroups = (
            replace(known.get(name, Subgroup(name)), gather=self.parts.get(name, ())) for name in names
        )
        return replace(
            gang,
            pod_sets=pod_sets,
            gather=self.gather,
            exclusive=self.exclusive,
            subgroups=tuple(subgroups),
        )


_NONE: Final = Wish()
#: The rules as an object writes them: Koordinator's, and the exclusive layer; "" = none.
Rules = tuple[str, str]
_KEYS: Final = (TOPOLOGY_SPEC, names.EXCLUSIVE)


def wish(own: Rules, parts: Mapping[str, Rules], world: World) -> Wish:
    """Returns the rules of a gang: those of its group object, and those of its parts.

    What all parts say alike is a rule of the gang. What only some say, or what they say differently, is a
    rule of each of these parts, which holds besides those of the group object.
    """
    whole, each = list(own), dict.fromkeys(parts, "")
    for i, key in enumerate(_KEYS):
        said = {rules[i] for rules in parts.values()}
        if len(said) < 2:
            whole[i] = whole[i] or "".join(said)
        elif i == 0:
            each = {name: rules[0] for name, rules in parts.items() if rules[0] != whole[0]}
        elif not whole[i]:
            some = sorted(name for name, rules in parts.items() if rules[i])
            why = (
                f"only {' and '.join(some)} name it" if len(said) == 2 and "" in said else "they differ in it"
            )
            what = (
                f"{key} is of the whole gang, and of its parts {why}; write the same on all, or on the group"
            )
            return Wish(refusal=Gate(Code.INVALID, what))
    found = _read(whole[0], whole[1], world) if any(whole) else _NONE
    for name, spec in each.items():
        if spec:
            found = _with_part(found, name, _read(spec, "", world))
    return found


def _with_part(found: Wish, name: str, part: Wish) -> Wish:
    refusal = part.refusal and replace(part.refusal, message=f"{name}: {part.refusal.message}")
    return replace(
        found,
        refusal=found.refusal or refusal,
        warnings=(*found.warnings, *(f"{name}: {warning}" for warning in part.warnings)),
        parts={**found.parts, name: part.gather} if part.gather else found.parts,
    )


def within(rules: Wish, layer: str, part: str) -> Wish:
    """Returns the rules, and that one domain of a layer that exists holds the gang, or this part of it."""
    rule = Gather(layer, Strategy.MUST_GATHER)
    if not part:
        return replace(rules, gather=(*rules.gather, rule))
    return replace(rules, parts={**rules.parts, part: (*rules.parts.get(part, ()), rule)})


def of_pods(group: ObjectMeta | None, members: Collection[Rules]) -> Rules | Gate:
    """Returns the rules of a PodGroup, which count for all of its pods; else what all of its pods say."""
    own, found = rules(group) if group is not None else ("", ""), []
    for i, key in enumerate(_KEYS):
        said = {texts[i] for texts in members}
        if not own[i] and len(said) > 1:
            some = ", and some have none" if "" in said else ""
            return Gate(
                Code.INVALID,
                f"its pods differ in {key}{some}; write it on the PodGroup, or make a PodGroup of each sort",
            )
        found.append(own[i] or "".join(said))
    return found[0], found[1]


def rules(meta: ObjectMeta) -> Rules:
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

"""Resolves a gang's rules about the network topology against the layers that exist.

A gang names layers; the topology numbers them. `resolve` finds the layers by name, and reports those that do
not exist; `Levels` is what placement has to observe.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import lcm

from muster.core.demand import Rules
from muster.core.words.gang import Gather, Layer, Strategy
from muster.core.world.topology import CLUSTER, NODE, named


@dataclass(frozen=True, slots=True)
class Found:
    """Rules with the layers' real names, and the errors and warnings about them."""

    gather: tuple[Gather, ...] = ()
    exclusive: str = ""
    #: why the gang must not be started; "" if it may
    error: str = ""
    warnings: tuple[str, ...] = ()


def resolve(gather: Iterable[Gather], exclusive: str, layers: Sequence[Layer]) -> Found:
    """Find the layers that a gang names.

    A required layer that does not exist is an error; a preferred one is ignored with a warning. A name in a
    different case is accepted with a warning if exactly one layer matches it. The cluster is a layer to
    gather in, but not one to have exclusively.
    """
    names = [CLUSTER, *(layer.name for layer in layers), NODE]
    found: list[Gather] = []
    errors: list[str] = []
    warnings: list[str] = []

    def layer(name: str, required: bool) -> str:
        if (known := named(name, names)) is not None:
            if known != name:
                warnings.append(f"layer {name} is called {known} here, and taken for it")
            return known
        if required:
            close = get_close_matches(name, names, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            errors.append(f"there is no topology layer {name}; there are {', '.join(names)}{meant}")
        else:
            warnings.append(f"there is no topology layer {name}, its preference is ignored")
        return ""

    for rule in gather:
        required = rule.strategy is Strategy.MUST_GATHER or rule.multiple > 1
        if name := layer(rule.layer, required):
            found.append(Gather(name, rule.strategy, rule.multiple))
    own = layer(exclusive, required=True) if exclusive else ""
    if own == CLUSTER:
        below = " or ".join(names[1:])
        errors.append(f"{CLUSTER} is the whole cluster, which no gang can have to itself; write {below}")
    return Found(tuple(found), own, "; ".join(errors), tuple(dict.fromkeys(warnings)))


@dataclass(frozen=True, slots=True)
class Levels:
    """Rules with layers as levels of the tree: 0 is the cluster, the last one the node."""

    #: the tightest level of which one domain must hold all pods
    limit: int
    #: the loosest level of which one domain should hold all; the limit, if none is preferred below it
    loosest: int
    #: level → N: the pods in each of its domains are a multiple of N
    multiples: Mapping[int, int]
    #: levels in whose domains all pods must be, not necessarily in one
    required: tuple[int, ...]
    #: the level of which the gang's domains are exclusive; 0: none
    exclusive: int

    @staticmethod
    def of(rules: Rules, layers: Sequence[Layer]) -> "Levels | None":
        """Resolve the rules to levels; None if a required layer does not exist."""
        found = resolve(rules.gather, rules.exclusive, layers)
        if found.error:
            return None
        names = [CLUSTER, *(layer.name for layer in layers), NODE]
        number = {name: level for level, name in enumerate(names)}
        musts = [number[r.layer] for r in found.gather if r.strategy is Strategy.MUST_GATHER]
        prefers = [number[r.layer] for r in found.gather if r.strategy is Strategy.PREFER_GATHER]
        limit = max(musts, default=0)
        loosest = min((level for level in prefers if level > limit), default=limit)
        multiples: dict[int, int] = {}
        for rule in found.gather:
            if rule.multiple > 1:
                level = number[rule.layer]
                multiples[level] = lcm(rule.multiple, multiples.get(level, 1))
        required = tuple(sorted({*musts, *multiples} - {0}))
        return Levels(limit, loosest, multiples, required, number.get(found.exclusive, 0))

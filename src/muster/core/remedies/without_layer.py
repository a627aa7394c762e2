"""Without a layer: one rule about the network topology less, else none of them."""

from collections.abc import Iterator
from dataclasses import replace

from muster.core.decisions import Remedy
from muster.core.gang import Gather, Strategy
from muster.core.placement import Rules
from muster.core.remedies.question import NOW, Question


def without_layer(question: Question) -> Iterator[Remedy]:
    """At most one. A preference keeps nothing from starting, so only what is required is left out."""
    rules = question.want.rules
    if rules is None:
        return
    required = [rule for rule in rules.gather if _required(rule)]
    for rule in required:
        others = tuple(other for other in rules.gather if other is not rule)
        if _fits(question, replace(rules, gather=others)):
            yield Remedy(_left_out(rule), NOW)
            return
    if rules.exclusive and _fits(question, replace(rules, exclusive="")):
        yield Remedy(f"without a {rules.exclusive} of its own", NOW)
    elif len(required) + bool(rules.exclusive) > 1 and _fits(question, Rules()):
        yield Remedy("without any rule about the topology", NOW)


def _required(rule: Gather) -> bool:
    return rule.strategy is Strategy.MUST_GATHER or rule.multiple > 1


def _fits(question: Question, rules: Rules) -> bool:
    empty = not (rules.gather or rules.exclusive)
    return question.fits(replace(question.want, rules=None if empty else rules))


def _left_out(rule: Gather) -> str:
    if rule.strategy is Strategy.MUST_GATHER:
        return f"without having to be in one {rule.layer}"
    return f"without multiples of {rule.multiple} per {rule.layer}"

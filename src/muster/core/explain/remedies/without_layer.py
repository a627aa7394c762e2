"""Remedy "without a layer": one rule about the network topology removed, else all of them."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from muster.core.explain.remedies.question import NOW, Question
from muster.core.words.decisions import Remedy
from muster.core.words.gang import Gather, Strategy


def without_layer(question: Question) -> Iterator[Remedy]:
    """Yield at most one remedy. Preferences prevent no start, so only required rules are removed."""
    rules = question.demand.rules
    if rules is None:
        return
    required = [i for i, rule in enumerate(rules.gather) if _required(rule)]
    for i in required:
        if _starts(question, {i}):
            yield Remedy(_left_out(rules.gather[i]), NOW)
            return
    if rules.exclusive and _starts(question, (), exclusive=""):
        yield Remedy(f"without a {rules.exclusive} of its own", NOW)
    elif len(required) + bool(rules.exclusive) > 1 and _starts(
        question, range(len(rules.gather)), exclusive=""
    ):
        yield Remedy("without any rule about the topology", NOW)


def _required(rule: Gather) -> bool:
    return rule.strategy is Strategy.MUST_GATHER or rule.multiple > 1


def _starts(question: Question, left_out: Collection[int], exclusive: str | None = None) -> bool:
    gang, demand = question.gang, question.demand
    assert demand.rules is not None
    gather = tuple(rule for i, rule in enumerate(demand.rules.gather) if i not in left_out)
    exclusive = demand.rules.exclusive if exclusive is None else exclusive
    rules = replace(demand.rules, gather=gather, exclusive=exclusive) if gather or exclusive else None
    return question.fits(replace(demand, rules=rules)) and question.starts(
        replace(
            gang,
            gather=tuple(rule for i, rule in enumerate(gang.gather) if i not in left_out),
            exclusive=exclusive,
        )
    )


def _left_out(rule: Gather) -> str:
    if rule.strategy is Strategy.MUST_GATHER:
        return f"without having to be in one {rule.layer}"
    return f"without multiples of {rule.multiple} per {rule.layer}"

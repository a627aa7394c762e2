"""Label selectors as text (`a=b,c!=d,e in (f,g),h notin (i),j,!k`), and what they select."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from muster.api.base import LabelSelector, LabelSelectorRequirement


def parse(text: str) -> LabelSelector:
    """Returns the selector of a text; an empty one selects everything. Raises ValueError."""
    rules: list[LabelSelectorRequirement] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(
                f"unable to parse label selector {text!r} at {text[position:]!r}: "
                "write key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
            )
        position = match.end()
        rules.append(_rule(match))
    return LabelSelector(match_expressions=rules)


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether the labels satisfy the selector; an empty selector is satisfied by all labels."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _OPERATORS[rule.operator](labels, rule.key, rule.values) for rule in selector.match_expressions
    )


_OPERATORS: Final[dict[str, Callable[[Mapping[str, str], str, list[str]], bool]]] = {
    "In": lambda labels, key, values: labels.get(key) in values,
    "NotIn": lambda labels, key, values: labels.get(key) not in values,
    "Exists": lambda labels, key, _: key in labels,
    "DoesNotExist": lambda labels, key, _: key not in labels,
}

_KEY: Final = r"(?:[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9](?:[-._A-Za-z0-9]*[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[-._A-Za-z0-9]*[A-Za-z0-9])?)?"
_TERM: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<no>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?:"
    rf"(?P<equal>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?<=\s)(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


def _rule(match: "re.Match[str]") -> LabelSelectorRequirement:
    if match["absent"]:
        return LabelSelectorRequirement(key=match["no"], operator="DoesNotExist")
    if match["equal"]:
        operator = "NotIn" if match["equal"] == "!=" else "In"
        return LabelSelectorRequirement(key=match["key"], operator=operator, values=[match["value"]])
    if not match["set"]:
        return LabelSelectorRequirement(key=match["key"], operator="Exists")
    values = [value.strip() for value in match["values"].split(",")]
    if any(not re.fullmatch(_VALUE, value) for value in values):
        raise ValueError(f"invalid label value in {match.group().strip()!r}")
    operator = {"in": "In", "notin": "NotIn"}[match["set"]]
    return LabelSelectorRequirement(key=match["key"], operator=operator, values=values)

"""Requirements on labels, by Kubernetes' own rules.

NotIn and DoesNotExist hold where the label is absent; Gt and Lt compare integers and hold for nothing else.
No requirement at all is satisfied by everything.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from muster.core.words.gang import Operator, Requirement


def satisfied(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy every requirement."""
    return all(holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a requirement holds for this value; None = there is no such label."""
    return _OPERATORS[requirement.operator](value, requirement.values)


def compares(sign: int, value: str | None, values: tuple[str, ...]) -> bool:
    """Whether `value` is above (`sign` 1) or below (-1) the one in `values`, both being integers."""
    if value is None or len(values) != 1:
        return False
    try:
        return sign * int(value) > sign * int(values[0])
    except ValueError:
        return False


_OPERATORS: Final[Mapping[Operator, Callable[[str | None, tuple[str, ...]], bool]]] = {
    Operator.IN: lambda value, values: value is not None and value in values,
    Operator.NOT_IN: lambda value, values: value is None or value not in values,
    Operator.EXISTS: lambda value, values: value is not None,
    Operator.DOES_NOT_EXIST: lambda value, values: value is None,
    Operator.GT: lambda value, values: compares(+1, value, values),
    Operator.LT: lambda value, values: compares(-1, value, values),
}

"""Evaluates the expressions by which DeviceClasses and claims select devices (CEL).

The language is that of `device` in k8s.io/dynamic-resource-allocation/cel: `device.driver`,
`device.attributes["domain"].name`, `device.capacity["domain"].name`, `device.allowMultipleAllocations`, with
quantities and semantic versions. An expression that fails for a device does not hold of it.

What an expression costs is bounded by its length, and by the library: 32 levels of nesting and 10,000 steps
of loops. Its memory is not: evaluate what others have written in a process with limits.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Final

from muster.api import quantity
from muster.api.base import Struct
from muster.api.resource_v1 import Device, DeviceAttribute

#: Most characters of an expression, as in Kubernetes (CELSelectorExpressionMaxLength).
LONGEST: Final = 10 * 2**10
MISSING: Final = "selectors of devices need the extra `devices`: pip install 'muster-scheduler[devices]'"
_SHOWN: Final = 200  # characters of a message of the library

#: A value that an expression sees. Quantities and versions are maps of one text, under these keys.
Value = bool | int | str | dict[str, str]
_QUANTITY: Final = "quantity"
_SEMVER: Final = "semver"


class Facts(Struct, frozen=True):
    """What an expression can see of a device, by domain and name; the driver's domain is not written."""

    driver: str
    attributes: dict[str, dict[str, Value]] = {}
    capacity: dict[str, dict[str, Value]] = {}
    several: bool = False


def facts(driver: str, device: Device, only: frozenset[str] | None = None) -> Facts:
    """Returns what expressions see of a device; of attributes and capacities, `only` these (None = all).

    Lists, and quantities that cannot be read, are left out, so an expression that looks at one fails.
    """
    attributes: dict[str, dict[str, Value]] = {}
    capacity: dict[str, dict[str, Value]] = {}
    for found, values in (
        (attributes, {name: _value(each) for name, each in device.attributes.items()}),
        (capacity, {name: _amount(each.value) for name, each in device.capacity.items()}),
    ):
        for full, value in values.items():
            domain, _, name = full.rpartition("/")
            if value is not None and (only is None or name in only):
                found.setdefault(domain or driver, {})[name] = value
    return Facts(
        driver=driver, attributes=attributes, capacity=capacity, several=device.allow_multiple_allocations
    )


def only(of: Facts, looked: frozenset[str]) -> Facts:
    """Returns what of these facts has one of these names."""

    def some(values: Mapping[str, Mapping[str, Value]]) -> dict[str, dict[str, Value]]:
        found = {domain: {n: v for n, v in each.items() if n in looked} for domain, each in values.items()}
        return {domain: each for domain, each in found.items() if each}

    return Facts(
        driver=of.driver, attributes=some(of.attributes), capacity=some(of.capacity), several=of.several
    )


def _value(attribute: DeviceAttribute) -> Value | None:
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.string is not None:
        return attribute.string
    return {_SEMVER: attribute.version} if attribute.version is not None else None


def _amount(value: str | int | float) -> Value | None:
    try:
        return _quantity(str(value))
    except ValueError:
        return None


#: What an expression looks at, if it is written in one of the usual ways: a name of a domain, or whether one
#: is there.
_USUAL: Final = re.compile(
    r"""device\.(?:driver|allowMultipleAllocations)\b
    |(?P<q>["'])(?P<asked>[\w./-]+)(?P=q)\s+in\s+device\.(?:attributes|capacity)\[(?:"[^"\\]*"|'[^'\\]*')\]
    |device\.(?:attributes|capacity)\[(?:"[^"\\]*"|'[^'\\]*')\]\s*(?:\.\??\s*(?P<name>\w+)|\[\??(?P<r>["'])(?P<key>[\w-]+)(?P=r)\])
    """,
    re.VERBOSE | re.ASCII,
)
#: An index: `["gpu.example.com"]`, `[?"gpu.example.com"]`.
_INDEX: Final = re.compile(r"""\[\s*(?:\?\s*)?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]""", re.DOTALL)
#: A text. One that nothing closes reaches to the end, so that a search takes as long as the expression is.
_TEXTS: Final = re.compile(r""""(?:[^"\\]|\\.)*("?)|'(?:[^'\\]|\\.)*('?)""", re.DOTALL)
#: Where texts are empty, one whose quotes or backslashes mean something else: raw, of bytes, in three quotes.
_OTHER_TEXTS: Final = re.compile(r'[rRbB]""|"{4}')


def _without_texts(expression: str) -> str | None:
    """Returns an expression with an empty text for each; None if it is not evident where its texts end."""
    closed = True

    def empty(match: re.Match[str]) -> str:
        nonlocal closed
        closed &= bool(match[1] or match[2])
        return '""'

    found = _TEXTS.sub(empty, expression)
    return found if closed and _OTHER_TEXTS.search(found) is None else None


@lru_cache(maxsize=4096)
def names(expression: str) -> frozenset[str] | None:
    """Returns the names of attributes and capacities on which the answer depends; None: perhaps on all.

    Devices that differ in nothing else have the same answer, so a serial number rarely matters.
    """
    if len(expression) > LONGEST or "//" in expression:
        return None  # it is never evaluated, or a comment may have any quotes
    found = {each for match in _USUAL.finditer(expression) for each in match.group("asked", "name", "key")}
    rest = _without_texts(_USUAL.sub("", expression))
    if rest is None or "device" in rest:
        return None  # bound to a name, looped over, compared as a whole
    return frozenset(filter(None, found))


class Expressions:
    """Compiles expressions once. Raises ImportError without the library."""

    def __init__(self) -> None:
        self._env = _environment()
        self._compiled: dict[str, Any] = {}  # Any: an expression of the library, or why there is none

    def fault(self, expression: str) -> str:
        """Returns why an expression can hold of no device; "" if it may."""
        compiled = self._of(expression)
        return compiled if isinstance(compiled, str) else ""

    def holds(self, expression: str, of: Facts) -> bool:
        """Whether an expression holds of a device. False if it has a fault, or fails for this device."""
        compiled = self._of(expression)
        if isinstance(compiled, str):
            return False
        try:
            found = compiled.eval(data={"device": _device(of, expression)})
        except (RuntimeError, ValueError, TypeError):  # such as an exceeded budget of steps
            return False
        return found.type().name() == "BOOL" and found.value() is True

    def _of(self, expression: str) -> Any:  # Any: as in `_compiled`
        known = self._compiled.get(expression)
        if known is None:
            known = self._compiled[expression] = self._compile(expression)
        return known

    def _compile(self, expression: str) -> Any:  # Any: as in `_compiled`
        if len(expression) > LONGEST:
            return f"it has {len(expression)} characters; at most {LONGEST} are evaluated"
        try:
            compiled = self._env.compile(expression)
        except TypeError:
            return "it is no text"
        except RuntimeError as error:
            return " ".join(str(error).replace("|", " ").split())[:_SHOWN]
        if (type_ := compiled.return_type().name()) not in ("BOOL", "DYN"):
            return f"it is {type_}, and must be true or false"
        return compiled


def _device(of: Facts, expression: str) -> dict[str, object]:
    """Returns the variable `device`. A domain that is indexed and not there is empty, as in Kubernetes."""
    asked: dict[str, dict[str, Value]] = {text[1:-1]: {} for text in _INDEX.findall(expression)}
    return {
        "driver": of.driver,
        "attributes": asked | of.attributes,
        "capacity": asked | of.capacity,
        "allowMultipleAllocations": of.several,
    }


# -- quantities and versions: k8s.io/apiserver/pkg/cel/library/{quantity,semverlib}.go


def _quantity(text: str) -> dict[str, str]:
    return {_QUANTITY: str(quantity.parse(text))}


_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


def _semver(text: str, normalize: bool = False) -> dict[str, str]:
    """Raises ValueError. `normalize`: reads `v1.02` as 1.2.0."""
    if normalize:
        numbers, mark, rest = re.fullmatch(r"v?([\d.]*)([-+]?)(.*)", text, re.ASCII | re.DOTALL).groups()  # type: ignore[union-attr]  # matches every text
        parts = [str(int(each)) for each in numbers.split(".")]
        text = ".".join([*parts, "0", "0"][: max(3, len(parts))]) + mark + rest
    if _VERSION.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no semantic version")
    return {_SEMVER: text}


def _order(value: Mapping[str, str]) -> Any:  # Any: what its kind is compared by
    if (text := value.get(_QUANTITY)) is not None:
        return Fraction(text)
    match = _VERSION.fullmatch(value[_SEMVER])
    if match is None:
        raise ValueError(f"{value[_SEMVER]!r} is no semantic version")
    *numbers, before = match.groups()
    marks = [(0, int(m), "") if m.isdigit() else (1, 0, m) for m in before.split(".")] if before else []
    return [*map(int, numbers)], not before, marks  # a pre-release comes before its release


def _compare(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    if one.keys() != other.keys():
        raise ValueError("a quantity and a version cannot be compared")
    this, that = _order(one), _order(other)
    return int(this > that) - int(this < that)


def _whole(value: Mapping[str, str]) -> int:
    found = _order(value)
    if not isinstance(found, Fraction) or found.denominator != 1:
        raise ValueError("it is no integer")
    return int(found)


def _number(place: int) -> Callable[[Mapping[str, str]], int]:
    return lambda value: int(_order(value)[0][place])


def _sum(one: Mapping[str, str], other: Mapping[str, str], sign: int) -> dict[str, str]:
    return {_QUANTITY: str(Fraction(one[_QUANTITY]) + sign * Fraction(other[_QUANTITY]))}


def _can(read: Callable[..., object], *arguments: object) -> bool:
    try:
        read(*arguments)
    except ValueError:
        return False
    return True


@cache
def _environment() -> Any:  # Any: the library is an extra
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings

    text, whole, truth, double = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL, cel.Type.DOUBLE
    amount = cel.Type.Map(text, text)

    def function(name: str, *overloads: tuple[Any, list[Any], bool, Callable[..., object]]) -> Any:
        made = [
            cel.Overload(
                id=f"{name}_{number}", return_type=returns, parameters=takes, is_member=member, impl=does
            )
            for number, (returns, takes, member, does) in enumerate(overloads)
        ]
        return cel.FunctionDecl(name, made)

    functions = [
        function("quantity", (amount, [text], False, _quantity)),
        function("isQuantity", (truth, [text], False, lambda t: _can(quantity.parse, t))),
        function("semver", (amount, [text], False, _semver), (amount, [text, truth], False, _semver)),
        function(
            "isSemver",
            (truth, [text], False, lambda t: _can(_semver, t)),
            (truth, [text, truth], False, lambda t, n: _can(_semver, t, n)),
        ),
        function("compareTo", (whole, [amount, amount], True, _compare)),
        function("isGreaterThan", (truth, [amount, amount], True, lambda a, b: _compare(a, b) > 0)),
        function("isLessThan", (truth, [amount, amount], True, lambda a, b: _compare(a, b) < 0)),
        function("major", (whole, [amount], True, _number(0))),
        function("minor", (whole, [amount], True, _number(1))),
        function("patch", (whole, [amount], True, _number(2))),
        function("sign", (whole, [amount], True, lambda a: _compare(a, {_QUANTITY: "0"}))),
        function("isInteger", (truth, [amount], True, lambda a: _can(_whole, a))),
        function("asInteger", (whole, [amount], True, _whole)),
        function("asApproximateFloat", (double, [amount], True, lambda a: float(_order(a)))),
        function("add", (amount, [amount, amount], True, lambda a, b: _sum(a, b, 1))),
        function("sub", (amount, [amount, amount], True, lambda a, b: _sum(a, b, -1))),
    ]
    extensions = [ext_strings.ExtStrings(), ext_bindings.ExtBindings(), ext_optional.ExtOptional()]
    return cel.NewEnv(
        variables={"device": cel.Type.DYN}, functions=functions, extensions=[*extensions, ext_math.ExtMath()]
    )


def evaluated(expression: str, devices: Iterable[Facts], by: Expressions) -> list[bool]:
    """Returns of which of these devices an expression holds."""
    return [by.holds(expression, each) for each in devices]

"""Exact arithmetic on Kubernetes quantities ("250m", "1.5Gi", "2e3").

Grammar: kubernetes/apimachinery, pkg/api/resource/quantity.go. Values are exact until the last step, so
that "0.1" is exactly a tenth. The functions of the last step say in which direction they round.
"""

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

BILLION: Final = 10**9
#: In billionths.
_SUFFIX: Final = {
    "n": 1,
    "u": 10**3,
    "m": 10**6,
    "": BILLION,
    "k": 10**12,
    "M": 10**15,
    "G": 10**18,
    "T": 10**21,
    "P": 10**24,
    "E": 10**27,
    "Ki": 2**10 * BILLION,
    "Mi": 2**20 * BILLION,
    "Gi": 2**30 * BILLION,
    "Ti": 2**40 * BILLION,
    "Pi": 2**50 * BILLION,
    "Ei": 2**60 * BILLION,
}
#: The largest int64.
LARGEST: Final = 2**63 - 1
_MOST: Final = LARGEST * BILLION
_FORM: Final = re.compile(
    r"([+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}))(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)


_NONE: Final = "{!r} is not a quantity; write {}"


def parse(text: str | int | float) -> Fraction:
    """The exact value of a quantity.

    Raises ValueError, whose message says what a quantity looks like, or that this one is too large. Upstream
    silently reduces a quantity that is too large to the largest one; muster refuses it instead.
    """
    if not isinstance(text, str | int | float):
        raise ValueError(_NONE.format(text, _advice("")))
    return _parse(text)


@lru_cache(maxsize=4096, typed=True)
def _parse(text: str | int | float) -> Fraction:
    return Fraction(billionths(text), BILLION)


@lru_cache(maxsize=4096, typed=True)
def billionths(text: str | int | float) -> int | Fraction:
    """As `parse`, in billionths: an integer but for what is finer. A fraction takes ten times as long."""
    match = _FORM.fullmatch(str(text))
    if match is None or isinstance(text, bool):
        raise ValueError(_NONE.format(text, _advice(str(text))))
    number, exponent, suffix = match.groups()
    whole, _, part = number.partition(".")
    amount: int | Fraction = int(whole + part) * _SUFFIX[suffix or ""]
    if exponent or part:
        exact = amount * Fraction(10) ** (int(exponent or 0) - len(part))
        amount = exact.numerator if exact.denominator == 1 else exact
    if not -_MOST <= amount <= _MOST:
        raise ValueError(f"{text} is more than a quantity can be, which is 2^63 - 1; write less than 8Ei")
    return amount


#: Amounts of bytes as people write them, and the suffix of Kubernetes for each first letter.
_BYTE_FORM: Final = re.compile(r"(\d{1,40}(?:\.\d{1,40})?) ?([KMGTPE])(i?)B?", re.ASCII | re.IGNORECASE)


def meant(text: str) -> str:
    """The quantity that an amount such as 64GB most likely means, in powers of 1024; "" if it is none."""
    match = None if _FORM.fullmatch(text) else _BYTE_FORM.fullmatch(text)
    return f"{match[1]}{match[2].upper()}i" if match is not None else ""


def _advice(text: str) -> str:
    """What to write instead of a text that is no quantity."""
    if not (binary := meant(text)):
        return "a number such as 500m, 2 or 1.5Gi"
    decimal = binary[:-1].replace("K", "k")
    return binary if "i" in text.lower() else f"{binary}, or {decimal} for powers of 1000"


_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")


@lru_cache(maxsize=4096, typed=True)
def canonical(text: str | int | float) -> str:
    """The quantity as an API server writes it: the same amount in whole units, with the largest suffix.

    The suffix stays of its kind: "1024Mi" is "1Gi", "0.5" is "500m", "1000" is "1k", "1000e0" is "1e3".
    The amount is rounded up to a nano.
    """
    value = parse(text)
    written = str(text)
    binary = written.endswith("i") and abs(value) >= 1024
    step, suffixes = (1024, _BINARY) if binary else (1000, _DECIMAL)
    amount = value if binary else value * 10**9
    number = math.ceil(amount) if amount > 0 else math.floor(amount)
    if binary and amount.denominator != 1:  # no whole bytes
        step, suffixes, number = 1000, _DECIMAL, math.ceil(value * 10**9)
    place = 0
    while number and place + 1 < len(suffixes) and number % step == 0:
        number, place = number // step, place + 1
    if not number:
        return "0"
    if suffixes is _DECIMAL and re.search(r"[eE][+-]?\d", written):
        exponent = 3 * place - 9
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{suffixes[place]}"


#: Resources measured in bytes, besides huge pages.
_BYTES: Final = ("memory", "ephemeral-storage", "storage")
#: Most characters of an amount (digits and suffix) that fits a table.
_SHORT: Final = 7


def unit(resource: str) -> int:
    """One integer unit of this resource, in billionths: a milli-CPU, else one byte or piece."""
    return BILLION // 1000 if resource == "cpu" else BILLION


def in_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")


def most(resource: str) -> int:
    """The largest capacity of a node that muster accepts, in integer units: 64 TiB of bytes."""
    return 2**46 if in_bytes(resource) else 2**31 - 1


def request(resource: str, quantity: str | int | float) -> int:
    """A request in integer units (milli-CPU, bytes, pieces), rounded up."""
    return math.ceil(parse(quantity) * BILLION / unit(resource))


def capacity(resource: str, quantity: str | int | float) -> int:
    """A capacity in integer units (milli-CPU, bytes, pieces), rounded down."""
    return math.floor(parse(quantity) * BILLION / unit(resource))


def show(resource: str, amount: int) -> str:
    """An amount in integer units as people write it, exactly: 1500 milli-CPU are "1.5", 2^31 bytes "2Gi"."""
    if resource == "cpu":
        return thousandths(amount)
    if not in_bytes(resource):
        return str(amount)
    decimal = canonical(amount)
    binary = decimal if amount % 1024 else canonical(f"{amount // 1024}Ki")
    return min(binary, decimal, key=len)


def about(resource: str, amount: int) -> str:
    """As `show`, but bytes that would take more than a few digits are rounded to four: "31.26Gi"."""
    exact = show(resource, amount)
    if not in_bytes(resource) or len(exact) <= _SHORT:
        return exact
    size, suffix = next((s, x) for x in reversed(_BINARY) if abs(amount) >= (s := _SUFFIX[x] // BILLION))
    return f"{amount / size:.4g}{suffix}" if abs(amount) < 1000 * size else f"{amount / size:.0f}{suffix}"


def thousandths(amount: int) -> str:
    """An amount in thousandths of one CPU, or of one GPU that pods share, as text in whole units."""
    return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")

"""Translates what claims ask for into the core's words, and refuses by name what muster does not decide.

The core knows a selector by the name of its answer. `Asked` says which question each name stands for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from muster.api.core_v1 import Toleration
from muster.api.resource_v1 import (
    DeviceAsked,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceTaint,
    ResourceClaimSpec,
)
from muster.core.words import devices as words
from muster.core.words.devices import ALL, DEVICE_CLASS, MOST_OF_CLAIM, ClaimShape, DeviceAsk
from muster.core.words.gang import Amounts

#: Most requests and alternatives, as in Kubernetes.
MOST_REQUESTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_CONSTRAINTS: Final = 32
#: Most different expressions and lists of tolerations of one claim: each is a question about all devices.
MOST_QUESTIONS: Final = 64
_MODES: Final = ("ExactCount", "All")
_EFFECTS: Final = ("NoSchedule", "NoExecute")

Tolerations = tuple[Toleration, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A claim in the core's words, and the questions behind the names of its answers."""

    shape: ClaimShape
    #: by answer, the expression
    expressions: dict[str, str] = field(default_factory=dict)
    #: by answer, the tolerations
    tolerations: dict[str, Tolerations] = field(default_factory=dict)
    #: attributes that constraints compare
    attributes: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()


def asked(name: str, spec: ResourceClaimSpec) -> Asked:
    """Returns what a claim asks for. `name`: of the claim in its pod.

    Raises ValueError, whose message begins with the field, if muster cannot decide it.
    """
    devices = spec.devices
    if len(devices.requests) > MOST_REQUESTS:
        raise ValueError(f"requests: there are {len(devices.requests)}, at most {MOST_REQUESTS} are read")
    found = Asked(ClaimShape(name, ()))
    requests = tuple(_request(each, found) for each in devices.requests)
    names = {each.name for each in requests}
    if len(names) < len(requests):
        raise ValueError("requests: two have one name")
    if (least := sum(_least(each) for each in requests)) > MOST_OF_CLAIM:
        raise ValueError(f"requests: they ask for {least} devices; a claim may have {MOST_OF_CLAIM}")
    full = names | {f"{each.name}/{one.name}" for each in requests for one in each.alternatives if one.name}
    if (many := len(found.expressions) + len(found.tolerations)) > MOST_QUESTIONS:
        raise ValueError(
            f"requests: they have {many} different expressions and lists of tolerations; at most "
            f"{MOST_QUESTIONS} are read; join expressions by &&"
        )
    if len(devices.constraints) > MOST_CONSTRAINTS:
        raise ValueError(
            f"constraints: there are {len(devices.constraints)}, at most {MOST_CONSTRAINTS} are read"
        )
    constraints = tuple(_constraint(each, full) for each in devices.constraints)
    return Asked(
        ClaimShape(name, requests, constraints),
        found.expressions,
        found.tolerations,
        frozenset(each.attribute for each in constraints),
        frozenset(one.device_class_name for each in devices.requests for one in _alternatives(each)),
    )


def least(claims: Iterable[ClaimShape]) -> Amounts:
    """Returns what any allocation of these claims takes at least, by class."""
    return tuple(sorted(words.least(claims).items()))


def tolerates(tolerations: Tolerations, taints: Iterable[DeviceTaint]) -> bool:
    """Whether a claim with these tolerations may have a device with these taints."""
    return all(any(_tolerates(each, taint) for each in tolerations) for taint in taints)


def counts(taint: DeviceTaint) -> bool:
    """Whether a taint keeps claims off; the effect None only informs."""
    return taint.effect in _EFFECTS


def expression_name(expression: str) -> str:
    """Returns the answer that an expression has in the core."""
    return f"cel/{_digest(expression)}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _tolerates(toleration: Toleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return (toleration.key, toleration.value) == (taint.key, taint.value)


def _alternatives(request: DeviceRequest) -> list[DeviceAsked]:
    return [request.exactly] if request.exactly is not None else request.first_available


def _request(request: DeviceRequest, found: Asked) -> words.DeviceRequest:
    at = f"request {request.name}"
    alternatives = _alternatives(request)
    if (request.exactly is not None) == bool(request.first_available):
        raise ValueError(f"{at}: it needs either exactly or firstAvailable")
    if len(alternatives) > MOST_ALTERNATIVES:
        raise ValueError(f"{at}: {len(alternatives)} alternatives; at most {MOST_ALTERNATIVES} are read")
    named = [one.name for one in alternatives] if request.exactly is None else []
    if len({*named}) < len(named):
        raise ValueError(f"{at}: two alternatives have one name")
    asks = tuple(
        _ask(one, f"{at}/{one.name}" if named else at, one.name if named else "", found)
        for one in alternatives
    )
    return words.DeviceRequest(request.name, asks)


def _ask(one: DeviceAsked, at: str, name: str, found: Asked) -> DeviceAsk:
    for fault in _faults(one):
        raise ValueError(f"{at}: {fault}")
    selectors = [DEVICE_CLASS + one.device_class_name]
    for expression in expressions(one.selectors, at):
        selectors.append(answer := expression_name(expression))
        found.expressions[answer] = expression
    tolerations = ""
    if one.tolerations:
        tolerations = f"tolerates/{_digest(repr(one.tolerations))}"
        found.tolerations[tolerations] = tuple(one.tolerations)
    count = ALL if one.allocation_mode == "All" else one.count
    return DeviceAsk(tuple(dict.fromkeys(selectors)), count, tolerations, name)


def _faults(one: DeviceAsked) -> Iterator[str]:
    if not one.device_class_name:
        yield "deviceClassName is missing"
    if one.admin_access:
        yield "adminAccess is not supported yet"
    if one.capacity is not None and one.capacity.requests:
        yield f"capacity {', '.join(sorted(one.capacity.requests))} of a shared device is not supported yet"
    if one.derived_attributes:
        yield "derivedAttributes are not supported yet"
    if one.allocation_mode not in _MODES:
        yield f"allocationMode {one.allocation_mode!r} is not one of {', '.join(_MODES)}"
    if one.allocation_mode == _MODES[0] and not 1 <= one.count <= MOST_OF_CLAIM:
        yield f"count is {one.count}; a claim may have 1 to {MOST_OF_CLAIM} devices"
    for toleration in one.tolerations:
        if toleration.operator not in ("", "Equal", "Exists"):
            yield f"operator {toleration.operator!r} of a toleration is not Equal or Exists"


def expressions(selectors: Iterable[DeviceSelector], at: str) -> Iterator[str]:
    """Yields the expressions of selectors. Raises ValueError for one of another sort."""
    for number, selector in enumerate(selectors):
        if selector.cel is None or not selector.cel.expression:
            raise ValueError(f"{at}: selectors[{number}] has no cel.expression, and others are not known")
        yield selector.cel.expression


def _least(request: words.DeviceRequest) -> int:
    return min((1 if one.count == ALL else one.count for one in request.alternatives), default=0)


def _constraint(constraint: DeviceConstraint, known: set[str]) -> words.DeviceConstraint:
    match, distinct = constraint.match_attribute, constraint.distinct_attribute
    if bool(match) == bool(distinct):
        raise ValueError("constraints: each needs either matchAttribute or distinctAttribute")
    if strange := sorted({*constraint.requests} - known):
        raise ValueError(f"constraint on {match or distinct}: there is no request {', '.join(strange)}")
    return words.DeviceConstraint(match or distinct, tuple(sorted({*constraint.requests})), bool(distinct))

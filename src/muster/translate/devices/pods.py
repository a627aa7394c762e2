"""Which claims a pod has, and why it must not start for them, if so.

A pod has a claim of its own from each template. Once that is made, it says what is asked for, whatever has
become of the template. A claim that exists by itself may be shared, or allocated already, and is refused by
name. Templates and claims are of the pod's namespace, so one of another namespace is one that does not exist.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from muster.api import pod_claims
from muster.api.base import AnyKind, Object, Resource, at
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod, PodSpec
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from muster.api.pod_claims import MOST_CLAIMS
from muster.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from muster.core.words.devices import ClaimShape, DeviceId
from muster.core.words.gang import Code, Gate
from muster.translate.claims import templates
from muster.translate.devices.claims import Asked, asked, expressions
from muster.translate.devices.counted import renamed
from muster.translate.devices.kinds import Wanted
from muster.translate.devices.selectors import MISSING

#: Characters of an expression that a message shows.
_SHOWN: Final = 120
_NONE: Final[Mapping[str, ResourceClaim | None]] = {}
_UNCOUNTED: Final[Mapping[str, str]] = {}
_NO_FAULTS: Final[Mapping[str, str]] = {}


class PodClaims(NamedTuple):
    """What the claims of a pod ask for; nothing, with the reason, if it cannot start for them."""

    asked: tuple[Asked, ...] = ()
    gate: Gate | None = None

    @property
    def shapes(self) -> tuple[ClaimShape, ...]:
        return tuple(each.shape for each in self.asked)


NO_CLAIMS: Final = PodClaims()


class Known(NamedTuple):
    """Objects by (namespace, name), as the world keeps them."""

    templates: Mapping[tuple[str, str], ResourceClaimTemplate]
    claims: Mapping[tuple[str, str], ResourceClaim]
    classes: Mapping[tuple[str, str], DeviceClass]
    #: by class that has one, the resource as which its devices are counted
    counted: Mapping[str, str] = _UNCOUNTED


def claims_of(
    spec: PodSpec,
    namespace: str,
    known: Known,
    made: Mapping[str, ResourceClaim | None] = _NONE,
    faults: Mapping[str, str] = _NO_FAULTS,
) -> PodClaims:
    """Returns what the claims of a pod, or of pods of a template, ask for.

    `made`: by its name in the pod, the claim that was made for it from its template; None: it needs none.
    `faults`: by expression that cannot be evaluated, why.

    Invalid: muster does not decide such a claim. Gated: something that it names does not exist (yet).
    """
    if len(spec.resource_claims) > MOST_CLAIMS:
        return _invalid(f"it has {len(spec.resource_claims)} resourceClaims; at most {MOST_CLAIMS} are read")
    names = [_text(entry, "name") for entry in spec.resource_claims]
    if len({*names}) < len(names):
        return _invalid("two of its resourceClaims have one name")
    found: list[Asked] = []
    for name, entry in zip(names, spec.resource_claims, strict=True):
        if name in made and made[name] is None:
            continue
        one = _one(name, entry, namespace, known, made.get(name), faults)
        if isinstance(one, Gate):
            return PodClaims(gate=Gate(one.code, f"resourceClaims {name}: {one.message}"))
        found.append(one)
    return PodClaims(tuple(found))


def _one(
    name: str,
    entry: Object,
    namespace: str,
    known: Known,
    made: ResourceClaim | None,
    faults: Mapping[str, str],
) -> Asked | Gate:
    """Returns what one claim asks for, or why it does not count."""
    of, spec = f"ResourceClaimTemplate {_text(entry, 'resourceClaimTemplateName')}", None
    if made is not None:
        of, spec = f"ResourceClaim {made.metadata.name}", made.spec
        if made.metadata.unreadable:
            return Gate(Code.INVALID, f"{of}: {made.metadata.unreadable}")
    elif (gate := _gate(entry, namespace, known)) is not None:
        return gate
    else:
        spec = known.templates[namespace, _text(entry, "resourceClaimTemplateName")].spec.spec
    try:
        found = _asked(name, _ENCODE(spec))
    except ValueError as error:
        return Gate(Code.INVALID, f"{of}: {error}")
    for class_ in sorted(found.classes):
        if ("", class_) not in known.classes:
            return Gate(Code.GATED, f"DeviceClass {class_} does not exist")
        wanted = Wanted()
        try:
            add_class(wanted, known.classes["", class_])
        except ValueError as error:
            return Gate(Code.GATED, str(error))
        for text in (text for texts in wanted.answers.values() for text in texts):
            if text in faults:
                return Gate(Code.GATED, f"DeviceClass {class_}: {_fault(text, faults)}")
    for text in found.expressions.values():
        if text in faults:
            code = Code.GATED if faults[text] == MISSING else Code.INVALID
            return Gate(code, f"{of}: {_fault(text, faults)}")
    return replace(found, shape=renamed(found.shape, known.counted))


def _fault(expression: str, faults: Mapping[str, str]) -> str:
    shown = expression if len(expression) <= _SHOWN else f"{expression[:_SHOWN]}…"
    return f"the expression {shown!r} selects no device: {faults[expression]}"


_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_DECODE: Final = msgspec.msgpack.Decoder(ResourceClaimSpec).decode


@lru_cache(maxsize=4096)
def _asked(name: str, packed: bytes) -> Asked:
    return asked(name, _DECODE(packed))


def made_for(pod: Pod, known: Known) -> dict[str, ResourceClaim | None]:
    """Returns the claims that were made for a pod from templates, by their names in the pod.

    None: its status says that it needs no such claim.
    """
    found: dict[str, ResourceClaim | None] = {}
    names, unneeded = pod_claims.names(pod), pod_claims.unneeded(pod)
    for name in pod_claims.templates(pod):
        claim = known.claims.get((pod.metadata.namespace, names.get(name, "")))
        if name in unneeded:
            found[name] = None
        elif claim is not None and pod_claims.is_made_for(pod, claim):
            found[name] = claim
    return found


def devices_of(pod: Pod, known: Known) -> tuple[DeviceId, ...]:
    """Returns the devices that a pod on a node has: of the claims that are reserved for it."""
    found: dict[DeviceId, None] = {}
    for name in pod_claims.all_names(pod):
        claim = known.claims.get((pod.metadata.namespace, name))
        if claim is not None and any(pod_claims.reserves(each, pod) for each in claim.status.reserved_for):
            found.update(dict.fromkeys(allocated(claim)))
    return tuple(found)


def allocated(claim: ResourceClaim | None) -> tuple[DeviceId, ...]:
    """Returns the devices that a claim has."""
    allocation = claim.status.allocation if claim is not None else None
    if allocation is None:
        return ()
    found = (DeviceId(f"{each.driver}/{each.pool}/{each.device}") for each in allocation.devices.results)
    return tuple(dict.fromkeys(found))


def named_by(obj: Resource) -> Iterator[tuple[AnyKind, str]]:
    """Yields the templates and claims that a pod, or the pods of a Job or JobSet, name: kind and name.

    Templates of pods are read as JSON, without being checked: of one that is refused, this may name too many.
    """
    if isinstance(obj, Pod):
        if pod_claims.has_claims(obj):
            named: list[tuple[AnyKind, str]] = [
                *((RESOURCE_CLAIM_TEMPLATE, name) for name in pod_claims.templates(obj).values()),
                *((RESOURCE_CLAIM, name) for name in pod_claims.all_names(obj)),
            ]
            yield from dict.fromkeys(named)
        return
    made = [obj.spec.template] if isinstance(obj, Job) else templates(obj) if isinstance(obj, JobSet) else []
    listed = (at(template, "spec").get("resourceClaims") for template in made)
    entries = [each for some in listed if isinstance(some, list) for each in some if isinstance(each, dict)]
    found = ((kind, _text(each, key)) for each in entries for kind, key in _KEYS)
    yield from dict.fromkeys((kind, name) for kind, name in found if name)


_KEYS: Final[tuple[tuple[AnyKind, str], ...]] = (
    (RESOURCE_CLAIM_TEMPLATE, "resourceClaimTemplateName"),
    (RESOURCE_CLAIM, "resourceClaimName"),
)


def add_class(wanted: Wanted, class_: DeviceClass, counted: Mapping[str, str] = _UNCOUNTED) -> None:
    """Adds what a class asks of devices. Raises ValueError if muster cannot evaluate it."""
    name = class_.metadata.name
    if class_.metadata.unreadable:
        raise ValueError(f"DeviceClass {name}: {class_.metadata.unreadable}")
    texts = tuple(expressions(class_.spec.selectors, f"DeviceClass {name}"))
    wanted.add_class(name, texts, counted.get(name, ""))


def _invalid(message: str) -> PodClaims:
    return PodClaims(gate=Gate(Code.INVALID, message))


def _gate(entry: Object, namespace: str, known: Known) -> Gate | None:
    """Returns why an entry is of no template that exists."""
    template, claim = _text(entry, "resourceClaimTemplateName"), _text(entry, "resourceClaimName")
    if bool(template) == bool(claim):
        return Gate(Code.INVALID, "it needs either resourceClaimTemplateName or resourceClaimName")
    if template:
        found = known.templates.get((namespace, template))
        if found is None or found.metadata.deletion_timestamp is not None:
            return Gate(Code.GATED, f"ResourceClaimTemplate {template} does not exist in its namespace")
        if found.metadata.unreadable:
            return Gate(Code.INVALID, f"ResourceClaimTemplate {template}: {found.metadata.unreadable}")
        return None
    if (namespace, claim) not in known.claims:
        return Gate(Code.GATED, f"ResourceClaim {claim} does not exist in its namespace")
    return Gate(
        Code.INVALID,
        f"ResourceClaim {claim} can be shared by several pods, which is not supported yet; "
        "write resourceClaimTemplateName",
    )


def unknown_claims(spec: PodSpec) -> list[str]:
    """Returns the claims that containers name and the pod does not have."""
    containers = (*spec.containers, *spec.init_containers)
    used = {_text(claim, "name") for container in containers for claim in container.resources.claims}
    return sorted(used - {_text(entry, "name") for entry in spec.resource_claims}) if used else []


def _text(entry: Object, key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""

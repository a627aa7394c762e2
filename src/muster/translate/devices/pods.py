"""Which claims a pod has, and why it must not start for them, if so.

Only templates are read so far: each pod has a claim of its own from them. A claim that exists by itself may
be shared, or allocated already, and is refused by name. Templates and claims are of the pod's namespace, so
one of another namespace is one that does not exist.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from muster.api.base import Object
from muster.api.core_v1 import PodSpec
from muster.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate
from muster.core.words.gang import Code, Gate
from muster.translate.devices.claims import Asked, asked, expressions
from muster.translate.devices.kinds import Wanted

#: Most claims of a pod.
MOST_CLAIMS: Final = 32


class PodClaims(NamedTuple):
    """What the claims of a pod ask for; nothing, with the reason, if it cannot start for them."""

    asked: tuple[Asked, ...] = ()
    gate: Gate | None = None


class Known(NamedTuple):
    """Objects by (namespace, name), as the world keeps them."""

    templates: Mapping[tuple[str, str], ResourceClaimTemplate]
    claims: Mapping[tuple[str, str], ResourceClaim]
    classes: Mapping[tuple[str, str], DeviceClass]


def claims_of(spec: PodSpec, namespace: str, known: Known) -> PodClaims:
    """Returns what the claims of a pod, or of pods of a template, ask for.

    Invalid: muster does not decide such a claim. Gated: something that it names does not exist (yet).
    """
    if len(spec.resource_claims) > MOST_CLAIMS:
        return _invalid(f"it has {len(spec.resource_claims)} resourceClaims; at most {MOST_CLAIMS} are read")
    found: list[Asked] = []
    for entry in spec.resource_claims:
        name = _text(entry, "name")
        if (gate := _gate(entry, namespace, known)) is not None:
            return PodClaims(gate=Gate(gate.code, f"resourceClaims {name}: {gate.message}"))
        of = _text(entry, "resourceClaimTemplateName")
        template = known.templates[namespace, of]
        try:
            one = asked(name, template.spec.spec)
            for class_ in sorted(one.classes):
                if ("", class_) not in known.classes:
                    missing = f"resourceClaims {name}: DeviceClass {class_} does not exist"
                    return PodClaims(gate=Gate(Code.GATED, missing))
                add_class(Wanted(), known.classes["", class_])
        except ValueError as error:
            return _invalid(f"resourceClaims {name}: ResourceClaimTemplate {of}: {error}")
        found.append(one)
    names = [each.shape.name for each in found]
    if len({*names}) < len(names):
        return _invalid("two of its resourceClaims have one name")
    if strange := sorted({*_used(spec)} - {*names}):
        return _invalid(f"containers name the claims {', '.join(strange)}, which the pod does not have")
    return PodClaims(tuple(found))


def add_class(wanted: Wanted, class_: DeviceClass) -> None:
    """Adds what a class asks of devices. Raises ValueError if muster cannot evaluate it."""
    name = class_.metadata.name
    if class_.metadata.unreadable:
        raise ValueError(f"DeviceClass {name}: {class_.metadata.unreadable}")
    wanted.add_class(name, tuple(expressions(class_.spec.selectors, f"DeviceClass {name}")))


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


def _used(spec: PodSpec) -> Iterator[str]:
    for container in (*spec.containers, *spec.init_containers):
        for claim in container.resources.claims:
            yield _text(claim, "name")


def _text(entry: Object, key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""

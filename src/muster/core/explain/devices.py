"""What claims ask for, in words, and how close nodes come to it."""

from collections.abc import Iterator
from dataclasses import replace

from muster.core.demand import Part
from muster.core.explain.case import Case
from muster.core.words.amounts import show
from muster.core.words.devices import ALL, DEVICE_CLASS, ClaimShape, DeviceAsk, DeviceRequest
from muster.core.world.allocation import Claims
from muster.core.world.claims import ANY_NUMBER


def asked(claims: Claims) -> str:
    """What a pod's claims ask for: "4 devices of class gpu with equal clique"."""
    return " and ".join(_claim(claim) for claim in claims)


def found(case: Case, part: Part) -> str:
    """Why no node has devices for one more pod of a part, and how many the best node has."""
    claims, devices = part.shape.claims, case.world.nodes.claims
    text = f"no node has {asked(claims)} free at once"
    if devices.undecided(claims):
        return f"{text}, as far as was found within the search budget"
    for fewer, number in _fewer(claims):
        slots = devices.slots(fewer)
        if ((slots > 0) & (slots < ANY_NUMBER)).any():
            return f"{text}: the best node has {number}"
    return text


def _fewer(claims: Claims) -> Iterator[tuple[Claims, int]]:
    """The claims of a pod with a single request for a number of devices, with each smaller number."""
    if len(claims) != 1 or len(claims[0].requests) != 1 or len(claims[0].requests[0].alternatives) != 1:
        return
    (claim,) = claims
    (request,) = claim.requests
    (ask,) = request.alternatives
    for number in range(min(ask.count, _MOST) - 1, 0, -1):
        alternatives = (replace(ask, count=number),)
        yield (replace(claim, requests=(replace(request, alternatives=alternatives),)),), number


def _claim(claim: ClaimShape) -> str:
    ruled = [
        f"{'distinct' if rule.distinct else 'equal'} {rule.attribute.rpartition('/')[2]}"
        for rule in claim.constraints
    ]
    requests = " and ".join(map(_request, claim.requests))
    return f"{requests} with {' and '.join(dict.fromkeys(ruled))}" if ruled else requests


def _request(request: DeviceRequest) -> str:
    return " or ".join(map(_ask, request.alternatives)) or f"a share of one device ({request.name})"


def _ask(ask: DeviceAsk) -> str:
    of = ask.selectors[0] if ask.selectors else DEVICE_CLASS
    of_class = f"devices of class {of.removeprefix(DEVICE_CLASS)}" if of.startswith(DEVICE_CLASS) else of
    what = f"all {of_class}" if ask.count == ALL else show(of, ask.count)
    return f"{what} that its selectors select" if len(ask.selectors) > 1 else what


#: The largest number of devices for which smaller numbers are tried.
_MOST = 32

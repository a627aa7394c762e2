"""The options of write requests (query parameters and `DeleteOptions`), and the `since` options of logs.

An API server ignores unknown query parameters. Here a write with one is refused, because it could otherwise
do more than the user asked: `DELETE …/pods?labelselector=app=x`, with one letter wrong, would delete all
pods, and a `dryRun` that is ignored is no dry run.

Source: kubernetes/apimachinery, pkg/apis/meta/v1/{types.go,validation/validation.go}.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from muster.api.base import Struct, Time
from muster.api.rules.container import LONGEST
from muster.embedded.verbs.deletion import DeleteOptions
from muster.kube.client import Propagation
from muster.kube.errors import BadRequest

_ALWAYS: Final = {"dryRun", "pretty", "timeout"}
#: `timeout` and `pretty` change no data, and `fieldManager` is not recorded.
_OF_WRITES: Final = _ALWAYS | {"fieldManager", "fieldValidation"}
_OF_DELETES: Final = _ALWAYS | {"gracePeriodSeconds", "orphanDependents", "propagationPolicy"}
_KNOWN: Final = {  # parameters by method and whether the path names an object
    ("POST", False): _OF_WRITES,
    ("POST", True): _OF_WRITES,
    ("PUT", True): _OF_WRITES,
    ("PATCH", True): _OF_WRITES,
    ("DELETE", True): _OF_DELETES,
    ("DELETE", False): _OF_DELETES | {"labelSelector", "fieldSelector"},
}
_VALIDATIONS: Final = ("", "Ignore", "Warn", "Strict")
_BOOLEANS: Final = {"": None, "true": True, "1": True, "false": False, "0": False}

#: Most seconds ago: earlier than any log.
_LONG_AGO: Final = 10**9
Query = Mapping[str, Sequence[str]]


class Preconditions(Struct, frozen=True, forbid_unknown_fields=True):
    uid: str | None = None
    resource_version: str | None = None


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """`DeleteOptions` as sent."""

    api_version: str | None = None
    kind: str | None = None
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: Propagation | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None

    @property
    def is_dry(self) -> bool:
        return is_dry(self.dry_run or ())

    def meant(self) -> DeleteOptions:
        policy = self.propagation_policy
        if self.orphan_dependents is not None:
            if policy is not None:
                raise BadRequest(
                    "orphanDependents and propagationPolicy exclude each other; write the latter"
                )
            policy = "Orphan" if self.orphan_dependents else "Background"
        grace, given = self.grace_period_seconds, self.preconditions or Preconditions()
        if grace is not None and grace > LONGEST:
            raise BadRequest(f"gracePeriodSeconds: {grace}: must be at most {LONGEST}")
        return DeleteOptions(given.uid or "", given.resource_version or "", grace, policy)


def check(method: str, named: bool, query: Query, more: Collection[str] = ()) -> None:
    """Raises `BadRequest` for a parameter that this write does not have, or that is given more than once."""
    known = _KNOWN.get((method, named))
    if known is None:
        return
    for name, values in query.items():
        if name not in known and name not in more:
            names = ", ".join(sorted(known))
            raise BadRequest(f"{method} has no query parameter {name!r} here; choose from {names}")
        if len(values) > 1 and name != "dryRun":
            raise BadRequest(f"the query parameter {name!r} is given {len(values)} times; write it once")
    if (given := query.get("fieldValidation", [""])[0]) not in _VALIDATIONS:
        raise BadRequest(f"fieldValidation={given} is not known; choose Ignore, Warn or Strict")


def since(seconds: int | None, time: str) -> timedelta | datetime | None:
    """Where to start reading a log: so long ago, or at a time. Raises `BadRequest` if both are given."""
    found: datetime
    if seconds is not None and time:
        raise BadRequest("sinceSeconds and sinceTime exclude each other; write one of them")
    if seconds is not None:
        if seconds == 0:
            raise BadRequest("sinceSeconds: Invalid value: 0: must be greater than 0")
        return timedelta(seconds=min(seconds, _LONG_AGO))
    if not time:
        return None
    try:
        found = msgspec.convert(time, Time)
    except msgspec.ValidationError:
        raise BadRequest(f"sinceTime={time} is not a time such as 2026-01-31T08:00:00Z") from None
    return found


def is_dry(values: Sequence[str]) -> bool:
    """Whether the request is a dry run. Raises `BadRequest` for an unknown stage."""
    if wrong := [value for value in values if value != "All"]:
        raise BadRequest(f'dryRun: Unsupported value: "{wrong[0]}": supported values: "All"')
    return bool(values)


def of_deletion(body: bytes, query: Query) -> Options:
    """The options in the body of a delete request; the query supplies those that the body leaves open."""
    try:
        given = msgspec.json.decode(body, type=Options) if body else Options()
        orphan = query.get("orphanDependents", [""])[0].lower()
        grace = query.get("gracePeriodSeconds", [""])[0]
        in_query = msgspec.convert(
            {
                "gracePeriodSeconds": int(grace) if grace.isdecimal() and len(grace) < 12 else grace or None,
                "propagationPolicy": query.get("propagationPolicy", [""])[0] or None,
                "orphanDependents": _BOOLEANS.get(orphan, orphan),
            },
            Options,
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"DeleteOptions: {error}") from None
    changes = {
        field: getattr(in_query, field)
        for field in ("grace_period_seconds", "propagation_policy", "orphan_dependents")
        if getattr(given, field) is None
    }
    dry = [*(given.dry_run or ()), *query.get("dryRun", ())]
    return msgspec.structs.replace(given, dry_run=dry, **changes)

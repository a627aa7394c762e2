"""The body of an Event (core/v1), and its limits."""

import hashlib
from datetime import UTC, datetime
from typing import Final

from muster.api import kinds
from muster.api.base import Object

#: The API server's own limit of a message.
LONGEST: Final = 1024
#: Characters of the object's name in the Event's name, which may have 253.
_NAME: Final = 200


def first(
    about: Object, type_: str, reason: str, message: str, component: str, now: datetime, identity: str
) -> Object:
    """Returns an Event of `component` about an object that has happened once.

    `about`: a reference {apiVersion, kind, namespace, name, uid}. Events of one `identity` have one name.
    """
    name = f"{about['name'][:_NAME]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    return {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.kind,
        "metadata": {"name": name, "namespace": about.get("namespace") or "default"},
        "involvedObject": about,
        "type": type_,
        "reason": reason,
        "reportingComponent": component,
        "reportingInstance": component,
        "firstTimestamp": stamp(now),
        **latest(message, now, 1),
    }


def latest(message: str, now: datetime, count: int) -> Object:
    """Returns the fields of an Event that change when it happens again, for the `count`th time."""
    return {"message": message[:LONGEST], "lastTimestamp": stamp(now), "count": count}


def stamp(now: datetime) -> str:
    """Returns the time as it is written in an Event, to the microsecond."""
    return now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

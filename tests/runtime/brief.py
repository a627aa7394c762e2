"""Writes in a few words, to compare them: what is done, and to what kind of object."""

from typing import Any

from muster.api import kinds
from muster.effects import Allocate, Bind, Create, Deallocate, Delete, Evict, Patch
from muster.runtime.writes import RecordPods, Write


def brief(write: Write) -> str:
    match write:
        case Create(kinds.GANG, body={"plan": _}):
            return "create Gang with plan"
        case Create(kind):
            return f"create {kind.kind}"
        case Patch(kind, _, _, {"spec": {"suspend": bool(value)}}):
            return f"suspend {kind.kind}" if value else f"resume {kind.kind}"
        case Patch(kinds.GANG, body={"plan": None, **rest}):
            return "remove plan, write status" if "status" in rest else "remove plan"
        case Patch(kinds.GANG, body={"plan": _}):
            return "record plan"
        case Patch(kind, subresource=subresource):
            return f"patch {kind.kind} {subresource}".rstrip()
        case Delete(kind):
            return f"delete {kind.kind}"
        case Bind():
            return "bind"
        case Allocate():
            return "allocate"
        case Deallocate():
            return "deallocate"
        case Evict():
            return "evict"
        case RecordPods():
            return "record pods"
        case _:
            raise AssertionError(f"no write of the committer: {write}")


def status_in(write: Write) -> Any:  # Any: JSON
    """The status that the write sets."""
    assert isinstance(write, Patch)
    assert isinstance(write.body, dict)
    return write.body["status"]

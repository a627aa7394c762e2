"""What a request to delete makes of an object: gone at once, or marked and waited for.

Pods that are on a node and have not ended get their grace period; the node's agent removes them by a
second delete with grace 0. Finalizers keep an object until their owners have removed them; how
dependents are treated is written down as a finalizer too, for the garbage collector.

Source: kubernetes/apiserver, pkg/registry/rest/delete.go and pkg/registry/generic/registry/store.go.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.api import kinds
from muster.api.base import Object
from muster.api.rules.container import LONGEST
from muster.api.rules.pod import GRACE_PERIOD
from muster.kube.client import Propagation
from muster.local.metadata import time_text
from muster.local.refusals import AnyKind

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """`uid` and `resource_version` are preconditions, grace in seconds, None = the object's own."""

    uid: str = ""
    resource_version: str = ""
    grace_period: int | None = None
    propagation: Propagation | None = None


def mark(kind: AnyKind, current: Object, options: DeleteOptions, now: datetime) -> tuple[Object, bool]:
    """(the object's next state, whether it is gone with it). Equal to `current`: nothing to do but wait."""
    old = current["metadata"]
    meta = dict(old)
    _name_policy(meta, options.propagation)
    grace = _grace(kind, current, options)
    if "deletionTimestamp" not in old:
        meta["deletionTimestamp"] = time_text(now + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
        if "generation" in meta:
            meta["generation"] += 1
    else:
        before = old.get("deletionGracePeriodSeconds", 0)
        if options.grace_period is not None and grace < before:  # it may only be shortened
            due = datetime.fromisoformat(old["deletionTimestamp"]) - timedelta(seconds=before - grace)
            meta["deletionTimestamp"] = time_text(due)
            meta["deletionGracePeriodSeconds"] = grace
    gone = not meta.get("finalizers") and not meta["deletionGracePeriodSeconds"]
    return {**current, "metadata": meta}, gone


def is_over(obj: Object) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("deletionGracePeriodSeconds")
        and not meta.get("finalizers")
    )


def _grace(kind: AnyKind, obj: Object, options: DeleteOptions) -> int:
    if kind is not kinds.POD:
        return 0
    spec = obj.get("spec") or {}
    phase = (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    period = options.grace_period
    if period is None:
        period = spec.get("terminationGracePeriodSeconds", GRACE_PERIOD)
    return 1 if period < 0 else min(int(period), LONGEST)


def _name_policy(meta: Object, propagation: Propagation | None) -> None:
    if propagation is None:
        return
    others = [name for name in meta.get("finalizers") or () if name not in (FOREGROUND, ORPHAN)]
    policy = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[propagation]
    meta["finalizers"] = others + policy
    if not meta["finalizers"]:
        del meta["finalizers"]

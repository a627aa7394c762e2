"""The effect of a delete request on an object: it is removed at once, or marked as being deleted.

Pods that are on a node and have not ended get their grace period; the node agent removes them by a second
delete with grace 0. Finalizers keep an object until their owners have removed them. The treatment of
dependents is recorded as a finalizer, too, for the garbage collector.

Source: kubernetes/apiserver, pkg/registry/rest/delete.go and pkg/registry/generic/registry/store.go.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.api import kinds, times
from muster.api.base import Object
from muster.api.rules.container import LONGEST
from muster.api.rules.pod import GRACE_PERIOD
from muster.embedded.api_errors import AnyKind
from muster.embedded.verbs.metadata import time_text
from muster.kube.client import Propagation

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a delete request.

    `uid` and `resource_version` are preconditions. The grace period is in seconds; None: the object's own.
    """

    uid: str = ""
    resource_version: str = ""
    grace_period: int | None = None
    propagation: Propagation | None = None


def mark(kind: AnyKind, current: Object, options: DeleteOptions, now: datetime) -> tuple[Object, bool]:
    """(the object's next state, whether the object is then to be removed).

    If the state equals `current`, there is nothing to write: the object already waits for its removal.
    """
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
        if options.grace_period is not None and grace < before:  # the grace period may only be shortened
            due = times.after(times.read(old["deletionTimestamp"]), grace - before)
            meta["deletionTimestamp"] = time_text(due)
            meta["deletionGracePeriodSeconds"] = grace
    gone = not meta.get("finalizers") and not meta["deletionGracePeriodSeconds"]
    return {**current, "metadata": meta}, gone


def is_over(obj: Object) -> bool:
    """Whether an object is being deleted and neither a grace period nor a finalizer keeps it."""
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

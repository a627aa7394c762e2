"""What muster writes otherwise than upstream's schedulers, on purpose."""

from fnmatch import fnmatchcase
from typing import Final, NamedTuple


class Difference(NamedTuple):
    """All but `why` are shell patterns."""

    #: dialect/scenario/step/field
    field: str
    #: what upstream writes, and what muster writes
    theirs: str
    ours: str
    why: str

    def allows(self, field: str, theirs: str, ours: str) -> bool:
        found = zip((field, theirs, ours), self[:3], strict=True)
        return all(fnmatchcase(text, pattern) for text, pattern in found)


_LATER: Final = (
    "In Volcano both conditions stay True, and the later one counts; in muster the one that no longer holds "
    "is False, so that a reader of one of them reads the same."
)
_REASON: Final = (
    "Volcano writes one reason for everything that keeps a group from starting; muster names the cause, as "
    "its Gang does, with Volcano's word where its API has one."
)
_NODES: Final = (
    "An autoscaler adds nodes for Unschedulable pods. More nodes would not start this gang, so muster does "
    "not call its pods Unschedulable."
)
_UNKNOWN: Final = "Volcano writes nothing about a group whose queue does not exist; muster says so."
_STALE: Final = (
    "Koordinator's scheduler does not see pods that have ended, and does not count a group again when a pod "
    "is deleted: its counts and phase stay until another pod changes. Muster counts the pods that are there."
)

DIFFERENT: Final = (
    Difference("volcano/*/Unschedulable", "True *", "False *", _LATER),
    Difference("volcano/*/Scheduled", "True *", "False *", _LATER),
    Difference("volcano/*/Unschedulable", "True NotEnoughResources", "True NotEnoughTasks", _REASON),
    Difference("volcano/*/Unschedulable", "True NotEnoughResources", "True QueueClosed", _REASON),
    *(
        Difference(
            f"volcano/{scenario}/*/pods",
            "*Pending unbound PodScheduled=False Unschedulable*",
            ours,
            _NODES,
        )
        for scenario, ours in {
            "queue_closed": "Pending unbound; Pending unbound",
            "queue_full": "Pending unbound; Pending unbound",
            "too_few": "*PodScheduled=False MembersMissing*",
            "task_lacks": "*PodScheduled=False MembersMissing*",
        }.items()
    ),
    *(
        Difference(
            f"{scenario}/*/pods",
            "Pending unbound; Pending unbound",
            "Pending unbound *MembersMissing; Pending unbound *MembersMissing",
            "Upstream writes nothing on pods that wait for others or for their group; muster says so after "
            "a minute.",
        )
        for scenario in (
            *("native/too_few", "native/group_missing", "volcano/group_missing"),
            *("koordinator/too_few", "koordinator/group_missing", "koordinator/described"),
        )
    ),
    Difference(
        *("volcano/queue_full/*/phase", "Pending", "Inqueue"),
        "Volcano admits a group to its queue by minResources, which cannot be trusted; muster admits every "
        "group and starts it whole or not at all.",
    ),
    Difference("volcano/queue_unknown/*/phase", "", "Pending", _UNKNOWN),
    Difference("volcano/queue_unknown/*/Unschedulable", "", "True Invalid", _UNKNOWN),
    Difference("volcano/queue_unknown/*/pods", "*", "*PodScheduled=False Invalid*", _UNKNOWN),
    Difference(
        *("koordinator/does_not_fit/two of three have room/pods", "*nominated*", "*"),
        "Koordinator leaves pods that had room nominated to their nodes, none to two of three from run to "
        "run; muster nominates the pods of a gang that preempts, and no others.",
    ),
    *(
        Difference(f"koordinator/{field}", theirs, ours, _STALE)
        for field, theirs, ours in (
            ("succeeds/all have succeeded/phase", "Running", "Finished"),
            ("succeeds/one has succeeded/running", "3", "2"),
            ("succeeds/one has succeeded/succeeded", "", "1"),
            ("succeeds/all have succeeded/running", "3", ""),
            ("succeeds/all have succeeded/succeeded", "", "3"),
            ("one_fails/one has failed/phase", "Running", "Failed"),
            ("one_fails/one has failed/[rs]*", "3", "2"),
            ("one_fails/one has failed/failed", "", "1"),
            ("one_is_deleted/one is deleted/phase", "Running", "Scheduling"),
            ("one_is_deleted/one is deleted/[rs]*", "3", "2"),
            ("preempted/the victim/[rs]*", "2", "1"),
        )
    ),
    Difference(
        *("native/group_deleted/*/PodGroupInitiallyScheduled", "True Scheduled", ""),
        "Kubernetes keeps a deleted PodGroup by a finalizer until its pods are gone; the embedded cluster "
        "has no such finalizer, and no status is left. On a real cluster muster sees what Kubernetes keeps.",
    ),
)

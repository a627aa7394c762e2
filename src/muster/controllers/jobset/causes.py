"""Ends the messages about failed Jobs: the verdict on their pods, and the Job that JobSet's messages name.

`muster.api.failures` makes the verdict, over all Jobs of the attempt: the Job that fails first is not always
the one whose pod did. Statuses of pods arrive in any order, some of them after the JobSet has failed. So
`corrected` repeats the verdict while pods of the attempt exist.
"""

from collections.abc import Iterable, Sequence

from muster.api.base import controller_of
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.failures import Verdict, last_failures, verdict, without_verdict
from muster.api.jobset_v1alpha2 import RESTART_ATTEMPT
from muster.api.natural import natural
from muster.controllers.job.finish import DEADLINE_EXCEEDED


def cause(job: Job, current: Sequence[Job], pods: Iterable[Pod]) -> str:
    """Why `job` failed for good, as one of the `current` Jobs: its own message if no pod tells."""
    why = job.status.failure
    if why is not None and why.reason == DEADLINE_EXCEEDED:
        return _ended(f"{why.reason}: {why.message}", job.metadata.name)
    return whole(job, current, pods)


def whole(job: Job, current: Sequence[Job], pods: Iterable[Pod]) -> str:
    """What failed first of all `current` Jobs; what `job` says if no pod tells."""
    uids = {each.metadata.uid for each in current}
    found = _verdict(pod for pod in pods if (by := controller_of(pod)) is not None and by.uid in uids)
    if found is not None:
        return _ended(*found)
    why = job.status.failure
    return _ended(f"{why.reason}: {why.message}" if why is not None else "it failed", job.metadata.name)


def corrected(message: str, pods: Iterable[Pod], attempt: int) -> str:
    """The message of a failed JobSet with the verdict on all pods of its last attempt that still exist."""
    mine = (pod for pod in pods if (natural(pod.metadata.labels.get(RESTART_ATTEMPT)) or 0) == attempt)
    found = _verdict(mine)
    text = without_verdict(message)
    # a message without a verdict is about something else, such as a deadline
    return message if found is None or text == message else f"{text}: {_ended(*found)}"


def _verdict(pods: Iterable[Pod]) -> tuple[Verdict, str] | None:
    """The verdict on these pods, and the Job whose pod failed first."""
    known = {pod.metadata.uid: pod for pod in pods}
    found = verdict(failure for pod in known.values() for failure in last_failures(pod))
    if found is None:
        return None
    by = controller_of(known[found.first.uid])
    return found, by.name if by is not None else ""


def _ended(text: str | Verdict, job: str) -> str:
    """The text, with the ending that JobSet's own messages have."""
    return f"{text.exact if isinstance(text, Verdict) else text} (first failed job: {job})"

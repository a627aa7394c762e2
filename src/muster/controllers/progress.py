"""Judges what the ranks of a gang report about their training, by the rules that their job declares.

The rules are those of `muster.api.progress`. The gang controller names the ranks that break one, and their
nodes, in the condition `Progressing` of the Gang, and `muster.controllers.gpu_health` moves jobs that ask for
it. A rank that reports nothing breaks no rule while another rank reports. If none does, all are stalled.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from muster import names
from muster.api import duration, progress
from muster.api.base import Resource
from muster.api.core_v1 import Pod
from muster.api.marks import PROGRESS_RULES
from muster.api.progress import Rules

#: The reasons, the gravest first.
STALLED: Final = "Stalled"
_REASONS: Final = ("LossNotFinite", "LossTooHigh", STALLED)

#: (reason, what is wrong) of a pod
Wrong = tuple[str, str]


def rules_of(source: Resource | None) -> Rules | None:
    """The rules of a group object; None without rules that can be read, or with `action=none`."""
    found = PROGRESS_RULES.get(source.metadata) if source is not None else None
    return found if found is not None and found.action != "none" else None


def judge(rules: Rules, pods: Iterable[Pod], now: datetime) -> tuple[dict[str, Wrong], datetime | None]:
    """Returns what is wrong by the pods' names, and when a rank will be stalled if it makes no step."""
    running = [pod for pod in pods if pod.status.phase == "Running"]
    reports = {
        pod.metadata.name: found
        for pod in running
        if (found := progress.report(pod.metadata.annotations.get(names.PROGRESS, ""))) is not None
    }
    wrong = {name: bad for name, each in reports.items() if (bad := progress.wrong_loss(rules, each))}
    if rules.stalled_after is None:
        return wrong, None
    span = timedelta(seconds=rules.stalled_after)
    since = {pod.metadata.name: min(pod.status.start_time or now, now) for pod in running}
    silent = not reports
    if not silent:
        since = {name: max(min(each.at or now, now), since[name]) for name, each in reports.items()}
    long = duration.show(rules.stalled_after)
    for name, moment in since.items():
        if name in wrong or now - moment < span:
            continue
        told = "it has reported no step" if silent else f"it is at step {reports[name].step}"
        wrong[name] = (STALLED, f"{told} for more than {long}")
    return wrong, min((at + span for at in since.values() if now - at < span), default=None)


def reason(wrong: Iterable[Wrong]) -> str:
    """The gravest reason."""
    return min((each for each, _ in wrong), key=_REASONS.index)

"""The cells of a pod: what of it runs, and why the rest does not.

Source: kubernetes, pkg/printers/internalversion/printers.go (printPod).
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from muster.api.base import Object
from muster.embedded.http.tables import ages
from muster.embedded.http.tables.column import AGE, NAME, Column, at

_NONE: Final = "<none>"


class _Restarts(NamedTuple):
    total: int = 0
    #: the newest end of an earlier run, as its field has it; "" if none is known
    last: str = ""

    def add(self, status: Object) -> "_Restarts":
        ended = (status.get("lastState") or {}).get("terminated") or {}
        return _Restarts(
            self.total + status.get("restartCount", 0), max(self.last, ended.get("finishedAt") or "")
        )


class _State(NamedTuple):
    ready: int
    containers: int
    status: str
    restarts: _Restarts


def _state(pod: Object) -> _State:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    reason = status.get("reason") or status.get("phase", "")
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    ready, restarts, of_sidecars = 0, _Restarts(), _Restarts()
    initializing = ""
    for position, one in enumerate(status.get("initContainerStatuses") or ()):
        restarts = restarts.add(one)
        if one["name"] in sidecars:
            of_sidecars = of_sidecars.add(one)
            if one.get("started"):
                ready += bool(one.get("ready"))
                continue
        initializing = _initializing(one.get("state") or {}, position, len(spec.get("initContainers") or ()))
        if initializing:
            break
    if not initializing or _is_true(conditions.get("Initialized")):
        restarts = of_sidecars
        statuses = status.get("containerStatuses") or []
        for one in statuses:
            restarts = restarts.add(one)
        running = sum(_runs(one) for one in statuses)
        ready += running
        reason = _of_containers(statuses, reason, running > 0, _is_true(conditions.get("Ready")))
    else:
        reason = initializing
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return _State(ready, len(spec.get("containers") or ()) + len(sidecars), reason, restarts)


def _runs(status: Object) -> bool:
    return bool(status.get("ready")) and (status.get("state") or {}).get("running") is not None


def _initializing(state: Object, position: int, count: int) -> str:
    """The status that an init container gives its pod; "" if it is done."""
    ended, waiting = state.get("terminated"), state.get("waiting") or {}
    if ended is not None:
        return f"Init:{_end(ended)}" if ended.get("exitCode") else ""
    if waiting.get("reason") not in (None, "", "PodInitializing"):
        return f"Init:{waiting['reason']}"
    return f"Init:{position}/{count}"


def _of_containers(statuses: list[Object], reason: str, running: bool, is_ready: bool) -> str:
    """The first container's reason not to run wins; one that failed wins over those that completed."""
    failed = ""
    for told, code in _reasons(statuses):
        reason = told
        failed = told if code else failed
    if reason != "Completed":
        return reason
    if running and is_ready:
        return "Running"
    return failed or ("NotReady" if running else reason)


def _reasons(statuses: list[Object]) -> Iterator[tuple[str, int]]:
    """Of each container that does not run, from the last to the first: the reason and the exit code."""
    for one in reversed(statuses):
        state: Object = one.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            yield waiting, 0
        elif (ended := state.get("terminated")) is not None:
            yield _end(ended), ended.get("exitCode", 0)


def _end(terminated: Object) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _is_true(condition: Object | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def _restarts(pod: Object, now: datetime) -> str:
    count, last = _state(pod).restarts
    return f"{count} ({ages.since(last, now)} ago)" if count and last else str(count)


def _gates(pod: Object, now: datetime) -> Any:  # Any: JSON
    gates = [gate.get("conditionType") for gate in (pod.get("spec") or {}).get("readinessGates") or ()]
    conditions = {c.get("type"): c for c in (pod.get("status") or {}).get("conditions") or ()}
    return f"{sum(_is_true(conditions.get(gate)) for gate in gates)}/{len(gates)}" if gates else _NONE


COLUMNS: Final = (
    NAME,
    Column("Ready", lambda pod, _: f"{(state := _state(pod)).ready}/{state.containers}"),
    Column("Status", lambda pod, _: _state(pod).status),
    Column("Restarts", _restarts),
    AGE,
    Column("IP", at(".status.podIP", _NONE), 1),
    Column("Node", at(".spec.nodeName", _NONE), 1),
    Column("Nominated Node", at(".status.nominatedNodeName", _NONE), 1),
    Column("Readiness Gates", _gates, 1),
)

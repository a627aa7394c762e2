"""Single figures with their goals: a limit on requests, gangs that cannot fit, failures, a large cluster."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec
from tests.cluster import goals
from tests.cluster.control_plane import ControlPlane, running

from bench.kubernetes import large, rows
from bench.kubernetes.contenders import muster
from bench.kubernetes.measure import await_binds, measure, settle, time_of
from bench.kubernetes.rows import Row
from bench.kubernetes.sender import send
from muster.api.kinds import POD_GROUP_X
from muster.names import SCHEDULER

QPS: Final = 50
#: Writes of a gang of 20 that starts at once, besides its binds.
BESIDES: Final = 3
#: Gangs that are told that they cannot fit.
REFUSED: Final = Row("cannot fit", 20, 20)
#: Seconds that this may take.
LONGEST: Final = 60.0


class Figure(NamedTuple):
    what: str
    found: float
    #: "≤" or "≥" and the goal; None: there is none
    goal: tuple[str, float] | None = None

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        sign, goal = self.goal
        return self.found <= goal if sign == "≤" else self.found >= goal


def capped(home: Path, scale: float) -> Iterator[Figure]:
    """With a limit on requests: the requests that the binds need, of those that the limit allows."""
    for row, besides in ((Row("single pods", 1_500, 1), 0), (Row("gangs of 20", 75, 20), BESIDES)):
        row = row.scaled(max(scale, 0.2))
        found = measure(home / row.name, row, muster(f"--qps={QPS}"), before=False)
        seconds = row.pods / found.rate
        needed = row.pods + besides * row.gangs
        part = needed / (QPS * seconds + QPS)  # the burst is as many as a second's
        yield Figure(f"--qps {QPS}, {row.name}: part of what it allows", part, ("≥", 0.95))


def refused(home: Path, scale: float) -> Iterator[Figure]:
    """Gangs that arrive at a full cluster: from their last pod until their Gang says why they wait."""
    nodes = REFUSED.scaled(scale).nodes
    filling = Row("filling", 1, nodes, nodes=nodes)
    contender = muster()
    with running(home, controllers=False) as plane:
        send(plane.kubeconfig, rows.nodes(filling))
        contender.prepare(plane)
        with contender.running(plane):
            send(plane.kubeconfig, rows.gangs(filling, SCHEDULER, None, cpu="30"))
            await_binds(plane, filling.pods, LONGEST)
            settle(plane)
            objects = [*rows.gangs(REFUSED, SCHEDULER, POD_GROUP_X, cpu="20")]
            for _, obj in objects:
                obj["metadata"]["name"] = obj["metadata"]["name"].replace("gang-", "late-")
                for key, value in obj["metadata"].get("labels", {}).items():
                    obj["metadata"]["labels"][key] = value.replace("gang-", "late-")
            send(plane.kubeconfig, objects)
            settle(plane)
            settle(plane)
        waits = sorted(_told(plane))
    assert len(waits) == REFUSED.gangs, f"{len(waits)} of {REFUSED.gangs} gangs were told why they wait"
    yield Figure("cannot fit: last pod → told in the Gang, median, s", median(waits), ("≤", 1.0))
    yield Figure("cannot fit: last pod → told in the Gang, longest, s", waits[-1], ("≤", 1.0))


def _told(plane: ControlPlane) -> Iterator[float]:
    """Seconds from the last pod of each gang until the first reason that is not that pods are missing."""
    made: dict[str, float] = {}
    told: dict[str, float] = {}
    for entry in plane.entries():
        match entry:
            case {
                "verb": "create",
                "objectRef": {"resource": "pods", "name": str(name)},
                "responseStatus": {"code": 201},
            } if name.startswith("late-"):
                made[name.rpartition("-")[0]] = time_of(entry["stageTimestamp"])
            case {
                "objectRef": {"resource": "gangs", "name": str(name)},
                "requestObject": {"status": {"reason": {"code": str(code)}}},
                "responseStatus": {"code": 200 | 201},
            } if code != "MembersMissing" and "late-" in name:
                told.setdefault(name.removeprefix("podgroup-"), time_of(entry["stageTimestamp"]))
    return (at - made[gang] for gang, at in told.items())


def failures(home: Path, scale: float) -> Iterator[Figure]:
    """Failed starts and lost leaders: what tests on a real API server tell of them, at any scale."""
    told = home / "told"
    environ = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.cluster",
            "-k",
            "given_back or policy or middle_of_a_gang_is or clocks",
        ],
        env={**environ, "MUSTER_TEST_CLUSTER": "1", goals.VARIABLE: str(told)},
        stdout=sys.stderr,
        check=True,
    )
    for line in told.read_bytes().splitlines():
        took = msgspec.json.decode(line, type=goals.Took)
        yield Figure(f"{took.what}, s", took.seconds, ("≤", took.most))


def at_scale(home: Path, scale: float) -> Iterator[Figure]:
    for what, found in large.measure(home, scale).items():
        goal = next((goal for part, goal in _LARGE.items() if what.endswith(part)), None)
        yield Figure(what, found, goal)


_LARGE: Final = {
    "nodes, MB": ("≤", 600.0),
    "first bind, s": ("≤", 30.0),
    "of a core": ("≤", 40.0),
}
#: By name. Each takes a directory and the scale.
FIGURES: Final[dict[str, Callable[[Path, float], Iterator[Figure]]]] = {
    "capped": capped,
    "refused": refused,
    "failures": failures,
    "large": at_scale,
}

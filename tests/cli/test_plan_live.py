"""`muster plan` beside a cluster that runs: what it says is what happens."""

from collections import Counter

import pytest

from tests.cli.binary import Muster, manifest, until

GANG = "scheduling: {mode: gang}"


@pytest.mark.full
def test_a_plan_is_carried_out_as_planned(muster: Muster) -> None:
    muster.run("up", "--detach", "--nodes", "3 x cpu=4,memory=8Gi")
    muster.file("first.yaml", manifest("sleep infinity", count=2, cpus=3, spec=GANG, name="first"))
    muster.file("second.yaml", manifest("sleep infinity", count=4, cpus=1, spec=GANG, name="second"))
    muster.file("third.yaml", manifest("sleep infinity", count=2, cpus=3, spec=GANG, name="third"))
    muster.run("submit", "first.yaml")
    until(lambda: running(muster, "first") == 2, "the first to run")

    (planned,) = muster.json("plan", "second.yaml")["decisions"]
    assert planned["outcome"] == "place"
    assert [each.rpartition("/")[2] for each in planned["assignments"]] == [f"worker-{i}" for i in range(4)]
    muster.run("submit", "second.yaml")
    until(lambda: running(muster, "second") == 4, "the second to run")
    pods = muster.json("timeline", "second")
    assert Counter(run["node"] for run in pods) == Counter(planned["assignments"].values())

    (planned,) = muster.json("plan", "third.yaml")["decisions"]
    assert planned["outcome"] == "wait"
    muster.run("submit", "third.yaml")
    until(lambda: "waits" in muster.run("why", "third").lines[0], "the reason")
    said = muster.run("why", "third").lines[0]
    reason = planned["reason"]
    assert said.endswith(f"waits: {reason['code']}. {reason['message']}")

    # the waiting one is told of after what is proposed; what has been planned has left no trace
    decisions = muster.json("plan", "second.yaml")["decisions"]
    assert [each["gang"].rpartition("/")[2].partition("-")[0] for each in decisions] == ["second", "third"]
    assert len(muster.json("list")) == 3
    for name in ("first", "second", "third"):
        muster.run("cancel", name)
    muster.run("down")


def running(muster: Muster, name: str) -> int:
    return sum(job["running"] for job in muster.json("list") if job["name"].startswith(name))

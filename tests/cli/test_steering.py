"""hold, release, requeue and set, with real processes."""

import json

import pytest

from tests.cli.binary import Muster, manifest, until

GANG = "scheduling: {mode: gang}\n  restartPolicy: {backoffLimit: 0}"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "plain"},
    "spec": {
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "x", "command": ["sleep", "infinity"]}],
            }
        },
    },
}


def states(muster: Muster) -> dict[str, tuple[str, int]]:
    """State and running pods of each job, by the name that its file gave it."""
    return {j["name"].partition("-")[0]: (j["state"], j["running"]) for j in muster.json("list")}


def test_a_gang_is_held_sent_back_and_released(muster: Muster) -> None:
    muster.run("up", "--detach", "--nodes", "1 x cpu=2,memory=4Gi")
    muster.file("job.yaml", manifest("sleep infinity", count=2, spec=GANG, name="g"))
    name = muster.run("submit", "job.yaml").lines[0]
    until(lambda: states(muster)["g"] == ("running", 2), "the gang to run")
    first = {pod["metadata"]["uid"] for pod in pods(muster, name)}

    assert muster.run("hold", "g").lines == [f"{name} held; 2 of its pods run on"]
    assert muster.run("requeue", name).lines == [f"{name} requeued"]
    until(lambda: states(muster)["g"] == ("waiting", 0), "the gang to wait")
    until(lambda: "held by muster.dev/hold" in muster.run("why", "g").out, "the reason")
    assert muster.run("requeue", "g").lines == [f"{name} is already waiting"]

    assert muster.run("release", "g").lines == [f"{name} released"]
    until(lambda: states(muster)["g"] == ("running", 2), "the gang to run again")
    assert muster.run("release", "g").lines == [f"{name} is not held"]
    again = pods(muster, name)
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in again)
    (job,) = muster.json("list")
    assert (job["restarts"], job["failed"]) == (0, 0), "pods that muster ended count as no failure"
    muster.run("cancel", "g")
    muster.run("down")


def pods(muster: Muster, name: str) -> list[dict[str, dict[str, str]]]:
    """The rows of `timeline`, which keeps every pod; here those that run."""
    runs = muster.json("timeline", name)
    return [{"metadata": {"uid": run["uid"]}} for run in runs if not run.get("ended")]


@pytest.mark.full
def test_independent_pods_are_held_and_sent_back_by_their_job(muster: Muster) -> None:
    muster.run("up", "--detach", "--nodes", "1 x cpu=2,memory=4Gi")
    muster.file("plain.json", json.dumps(JOB))
    muster.run("submit", "plain.json")
    until(lambda: states(muster)["plain"] == ("running", 2), "the pods to run")
    muster.run("hold", "plain")
    assert muster.run("requeue", "plain").lines == ["plain requeued"]
    until(lambda: states(muster)["plain"] == ("waiting", 0), "the pods to wait")
    muster.run("release", "plain")
    until(lambda: states(muster)["plain"] == ("running", 2), "the pods to run again")
    (job,) = muster.json("list")
    assert (job["state"], job["failed"]) == ("running", 0), "with a backoffLimit of 0"
    muster.run("cancel", "plain")
    muster.run("down")


@pytest.mark.full
def test_a_waiting_job_can_be_moved_up(muster: Muster) -> None:
    muster.run("up", "--detach", "--nodes", "1 x cpu=1,memory=4Gi")
    for name in ("first", "second", "third"):
        muster.file(f"{name}.yaml", manifest("sleep infinity", cpus=1, spec=GANG, name=name))
        muster.run("submit", f"{name}.yaml")
    until(lambda: states(muster)["first"] == ("running", 1), "the first to run")
    assert muster.run("set", "third", "--priority", "10").lines[0].endswith(": priority 10")
    muster.run("cancel", "first")
    until(lambda: states(muster).get("third") == ("running", 1), "the third to pass the second")
    assert states(muster)["second"][0] == "waiting"

    # what no label can hold is an annotation, and a label does not stand over it
    muster.run("set", "second", "--priority", "7")
    assert muster.run("set", "second", "--priority", "-7").lines[0].endswith(": priority -7")
    meta = muster.json("get", "second")["metadata"]
    assert "muster.dev/priority" not in meta["labels"]
    assert meta["annotations"]["muster.dev/priority"] == "-7"

    done = muster.run("set", "second", "--queue", "nosuch", code=2)
    assert "--queue nosuch: there is no queue nosuch; there is only default" in done.err
    queue = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue"}
    inner = [{**queue, "metadata": {"name": "inner"}}, {**queue, "metadata": {"name": "leaf"}}]
    muster.file("queues.json", json.dumps({"kind": "List", "apiVersion": "v1", "items": inner}))
    assert muster.run("check", "queues.json").lines == ["queues.json: nothing to run"]
    inner[1]["spec"] = {"parent": "inner"}
    muster.file("queues.json", json.dumps({"kind": "List", "apiVersion": "v1", "items": inner}))
    muster.run("submit", "queues.json")
    for verb in ("set second", "submit third.yaml", "run third.yaml"):
        done = muster.run(*verb.split(), "--queue", "inner", code=2)
        assert "--queue inner: queue inner has queues below it; name one of them: leaf" in done.err
    done = muster.run("set", "second", "--priority", "urgent", code=2)
    assert "--priority urgent: neither a number of up to nine digits nor a PriorityClass" in done.err
    done = muster.run("set", "second", code=2)
    assert "nothing to set: --priority P, --queue Q, or both" in done.err
    for verb in ("hold", "release", "requeue"):
        assert "no job named nosuch" in muster.run(verb, "nosuch", code=2).err
    for name in ("second", "third"):
        muster.run("cancel", name)
    assert "no job named third" in muster.run("hold", "third", code=2).err
    muster.run("down")


@pytest.mark.full
def test_a_pod_that_nothing_would_recreate_is_not_requeued(muster: Muster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "x", "command": ["sleep", "infinity"]}],
        },
    }
    muster.file("pod.json", json.dumps(pod))
    muster.run("up", "--detach")
    muster.run("submit", "pod.json")
    until(lambda: states(muster)["alone"] == ("running", 1), "the pod to run")
    done = muster.run("requeue", "alone", code=2)
    assert "pod alone has no controller, so nothing would re-create it" in done.err
    muster.run("cancel", "alone")
    muster.run("down")

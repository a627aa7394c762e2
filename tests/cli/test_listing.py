"""`list` with its filters, `cancel` of several jobs and of a file, `run --replace`, with real processes."""

import pytest

from tests.cli.binary import Muster, manifest, until

GANG = "scheduling: {mode: gang}\n  restartPolicy: {backoffLimit: 0}"
WAITS = "while ! test -e release; do sleep 0.05; done"


def submitted(muster: Muster, name: str, command: str) -> str:
    muster.file(f"{name}.yaml", manifest(command, spec=GANG, name=name))
    return muster.run("submit", f"{name}.yaml").out.strip()


def states(muster: Muster, *words: str) -> dict[str, str]:
    return {job["name"]: job["state"] for job in muster.json("list", *words)}


def test_jobs_are_listed_by_state_including_deleted_jobs(muster: Muster) -> None:
    muster.run("up", "--detach", "--nodes", "1 x cpu=4,memory=8Gi")
    names = [submitted(muster, name, "sleep infinity") for name in ("one", "two")]
    good, bad = submitted(muster, "good", "true"), submitted(muster, "bad", "exit 3")
    expected = dict.fromkeys(names, "running") | {good: "succeeded", bad: "failed"}
    until(lambda: states(muster) == expected, "all to run or to end")
    assert states(muster, "--state", "failed") == {bad: "failed"}
    assert states(muster, "--state", "failed", "--state", "succeeded") == {bad: "failed", good: "succeeded"}
    heading = ["NAME", "KIND", "STATE", "QUEUE", "PRIORITY", "GPUS"]
    assert muster.run("list", "-o", "wide").lines[0].split()[:6] == heading
    row = next(line for line in muster.run("list", "-o", "wide").lines if line.startswith(names[0]))
    assert row.split()[1:6] == ["JobSet", "running", "default", "0", "0"]
    narrow = muster.run("list").lines
    assert narrow[0].split() == ["NAME", "STATE", "PODS", "TIME", "ENDED", "NOTE"]
    assert next(line.split()[1:3] for line in narrow if line.startswith(names[0])) == ["running", "1/1"]
    assert states(muster, "--limit", "1") == {bad: "failed"}

    watch = muster.start("list", "--watch", "--state", "running")
    assert watch.stdout is not None
    assert watch.stdout.readline().split()[:3] == ["NAME", "STATE", "QUEUE"]
    assert {watch.stdout.readline().split()[0] for _ in names} == set(names)
    later = submitted(muster, "later", "sleep infinity")
    assert watch.stdout.readline().split()[0] == later, "a line for what changes, and no other"
    watch.terminate()

    cancelled = muster.run("cancel", *names, later).lines
    assert sorted(cancelled) == sorted(f"{name} cancelled" for name in (*names, later))
    assert states(muster) == {good: "succeeded", bad: "failed"}
    everything = states(muster, "--all")
    assert everything == dict.fromkeys((*names, later), "cancelled") | {good: "succeeded", bad: "failed"}
    assert set(states(muster, "--state", "cancelled")) == {*names, later}
    assert muster.json("get", names[0])["metadata"]["name"] == names[0]
    assert "cancelled" in muster.run("why", names[0]).out
    muster.run("down")


@pytest.mark.full
def test_the_jobs_of_a_file_are_cancelled_and_replaced(muster: Muster) -> None:
    muster.run("up", "--detach", "--nodes", "1 x cpu=1,memory=8Gi")
    old = submitted(muster, "again", WAITS)
    until(lambda: states(muster)[old] == "running", "the first to run")
    muster.file("again.yaml", manifest("echo second", cpus=1, spec=GANG, name="again"))
    done = muster.run("run", "again.yaml", "--replace")
    assert any("second" in line for line in done.lines)
    assert states(muster, "--all")[old] == "cancelled"

    other = submitted(muster, "other", WAITS)
    third = submitted(muster, "again", WAITS)
    assert muster.run("cancel", "-f", "again.yaml").lines == [f"{third} cancelled"]
    assert states(muster)[other] in ("running", "waiting", "starting")
    assert "no unfinished job of again.yaml is there" in muster.run("cancel", "-f", "again.yaml", code=2).err
    muster.run("cancel", "other")

    precious = submitted(muster, "again", WAITS)
    muster.file("other.yaml", manifest("echo third", cpus=0.1, spec=GANG, name="again"))
    done = muster.run("run", "other.yaml", "--replace")
    assert "again.yaml, submitted by" in done.err
    assert "not replaced" in done.err
    assert "no unfinished job of other.yaml" in muster.run("cancel", "-f", "other.yaml", code=2).err
    assert states(muster)[precious] in ("running", "waiting", "starting"), "it is another file's"
    muster.run("down")

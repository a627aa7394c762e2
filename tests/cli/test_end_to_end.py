"""The command line with real processes, as a person uses it."""

import json
import os
import re
import shutil
import signal
import socket
from datetime import datetime

import pytest

from tests.cli.binary import EXAMPLES, Muster, Terminal, manifest, names, until
from tests.patience import PATIENCE
from tests.tiers import sample

GANG = "scheduling: {mode: gang}"
STUBBORN = """apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec:
  terminationGracePeriodSeconds: 3600
  containers:
  - name: main
    image: none
    command: [sh, -c, "trap 'echo told' TERM; echo up; while true; do sleep 0.05; done"]
"""


@pytest.fixture
def examples(muster: Muster) -> Muster:
    shutil.copytree(EXAMPLES, muster.cwd / "examples")
    return muster


def gone(muster: Muster) -> None:
    """The host leaves by itself, and takes everything with it."""
    until(lambda: not muster.processes(), "the host to leave")


@pytest.mark.parametrize("isolation", sample(["", "none"], 1))
def test_the_two_patterns_run_unmodified_side_by_side(examples: Muster, isolation: str) -> None:
    """Both scripts find their peers by name, at the same time, with namespaces where they are permitted."""
    examples.environ["MUSTER_ISOLATION"] = isolation
    up = examples.run("up", "--detach")
    lacking = json.loads((examples.home / "endpoint.json").read_text())["degraded"]
    assert up.err == (f"note: {lacking}\n" if lacking else "")
    if isolation:
        assert "without namespaces" in lacking
        assert "MUSTER_ISOLATION=none" in lacking
    first = examples.start("run", "examples/13-coordinator.yaml")
    peers = examples.run("run", "examples/14-peers.yaml")
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, out + err
    assert "coordinator-0-0 │ [coordinator] all workers up, begin coordination" in out
    assert sum("[peers] all peers up, starting work" in line for line in peers.lines) == 4
    assert "gang of 4: worker 4" in peers.lines[0]
    assert "without namespaces" not in err + peers.err, "told once, to the command that started the cluster"
    examples.run("down")
    gone(examples)


def test_a_run_and_what_can_be_asked_afterwards(muster: Muster) -> None:
    both = (
        "touch said-$JOB_INDEX; until test -e said-0 -a -e said-1; do sleep 0.05; done"  # one ends the other
    )
    command = f"echo hello; {both}; exit 7"
    muster.file("job.yaml", manifest(command, count=2, spec="restartPolicy: {backoffLimit: 0}"))
    done = muster.run("run", "job.yaml", code=7)
    assert " · 2 independent pods: worker 2" in done.lines[0]
    assert "worker-0-0 │ hello" in done.lines
    (result,) = [line for line in done.lines if line.startswith("failed in ")]
    assert "exited with code 7" in result
    assert any(line.startswith("worker ") and "✗  exit 7 on " in line for line in done.lines)
    gone(muster)

    name = done.lines[0].partition(" ")[0]
    (job,) = muster.json("list")
    assert (job["name"], job["state"], job["kind"], job["failed"] > 0) == (name, "failed", "JobSet", True)
    assert muster.json("get", "job")["metadata"]["name"] == name
    assert muster.run("get", name, "-o", "yaml").lines[0].startswith("apiVersion: jobset")
    assert "failed in" in muster.run("why", "job").out
    assert muster.json("why", "job")["reason"]["code"] == job["reason"]["code"]
    assert "worker-0-0 │ hello" in muster.run("logs", "job").lines
    (stamped, *_) = [
        line for line in muster.run("logs", "job", "--since", "1h", "--timestamps").lines if "hello" in line
    ]
    assert re.fullmatch(r"worker-\d-0 │ 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\dZ hello", stamped)
    assert muster.run("logs", "job", "--since", "2099-01-01T00:00:00Z").out == ""
    assert {run["exit_code"] for run in muster.json("timeline", "job")} <= {7, 143, None}
    assert muster.run("nodes").lines[0].startswith("NAME")
    assert "has no type workr; did you mean worker?" in muster.run("logs", "job", "-g", "workr", code=2).err
    assert "its pods: worker-0-0" in muster.run("logs", "job", "nosuch", code=2).err

    assert muster.run("cancel", "job").out == f"{name} cancelled\n"
    gone(muster)
    assert muster.run("list").out == "no jobs\n"
    assert "worker-0-0 │ hello" in muster.run("logs", name).lines, "logs outlive the job"
    assert "worker 0" in muster.run("timeline", "job").out
    assert muster.run("logs", "nosuch", code=2).err == "no job named nosuch; there is none\n"


@pytest.mark.full
def test_a_gang_restarts_as_a_whole_within_its_budget(muster: Muster) -> None:
    dies = "until test -e up-0 -a -e up-2; do sleep 0.05; done; echo dying; touch dying; exit 9"
    waits = "until test -e again-1; do sleep 0.05; done"  # for the second start of the one that dies
    begun = "if test -e dying; then touch again-$JOB_INDEX; else touch up-$JOB_INDEX; fi"
    command = f"{begun}; if [ $JOB_INDEX = 1 ] && mkdir flag; then {dies}; fi; {waits}; echo done"
    muster.file("job.yaml", manifest(command, count=3, spec=f"{GANG}\n  restartPolicy: {{backoffLimit: 1}}"))
    done = muster.run("run", "job.yaml")
    assert any(line.endswith(" · 3 succeeded · 1 restart") for line in done.lines), done.out
    bars = {line[:8]: line for line in done.lines if line.startswith("worker ")}
    assert "restarted once: exit 9" in bars["worker 1"]
    assert "✗" not in bars["worker 0"] + bars["worker 2"], "told to end, they have not failed"
    assert "worker-1-0     │ dying" in muster.run("logs", "job").lines
    assert "worker-1-0 (2) │ done" in muster.run("logs", "job").lines
    gone(muster)


def test_ctrl_c_ends_the_job_with_its_grace_and_leaves_nothing(muster: Muster) -> None:
    command = "trap 'echo told; sleep 0.3; echo bye; exit 3' TERM; echo up; while true; do sleep 0.05; done"
    muster.file("job.yaml", manifest(command, count=2, spec=GANG))
    run = muster.start("run", "job.yaml")
    assert run.stdout is not None
    seen = ""
    while seen.count("│ up") < 2:
        line = run.stdout.readline()
        assert line, seen
        seen += line
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
    assert out.count("│ bye") == 2, out
    assert "cancelled (waited " in out
    assert "✗" not in out, "cancelled is not failed"
    gone(muster)
    assert muster.run("list").out == "no jobs\n"


PAIR = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: pair}
spec: {minMember: 4}
---
apiVersion: v1
kind: Pod
metadata: {name: left, labels: {scheduling.x-k8s.io/pod-group: pair}}
spec: {containers: [{name: c, command: [sleep, "600"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: right, labels: {scheduling.x-k8s.io/pod-group: pairr}}
spec: {containers: [{name: c, command: [sleep, "600"]}]}
"""


@pytest.mark.full
def test_the_gangs_of_a_file_are_kept_apart_and_so_are_its_runs(muster: Muster) -> None:
    muster.file("pair.yaml", PAIR)
    for _ in range(2):
        run = muster.start("run", "pair.yaml")
        assert run.stdout is not None
        assert run.stdout.readline() == "pair, pairr · gang of at least 4: left 1; gang of 1: right 1\n"
        seen = ""
        while seen.count("MembersMissing") < 2:
            seen += (line := run.stdout.readline())
            assert line, seen
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=PATIENCE)
        assert run.returncode == 130
        assert "is 4, but the file has 1 pod of this group" in err
        assert "there is no PodGroup pairr in this file" in err
        states, _, ends = (seen + out).partition("pair · cancelled")
        for line in states.splitlines():
            assert line.startswith(("pair · ", "pairr · ", "cancelling: ")), states
        first, _, second = ends.partition("pairr · cancelled")
        assert ("left" in first, "right" in first) == (True, False), first
        assert ("left" in second, "right" in second) == (False, True), second
        assert second.count("right") == 1, "the pod of the first run is not of the second"
    assert len(muster.json("timeline", "pair")) == 1
    gone(muster)


@pytest.mark.full
def test_a_second_ctrl_c_does_not_wait(muster: Muster) -> None:
    """The pod has an hour to end, and would take it."""
    muster.file("pod.yaml", STUBBORN)
    run = muster.start("run", "pod.yaml")
    assert run.stdout is not None
    for wanted in ("up", "told"):
        while wanted not in (line := run.stdout.readline()):
            assert line
        run.send_signal(signal.SIGINT)
    run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
    gone(muster)


def test_kill_9_of_the_host_loses_nothing(muster: Muster) -> None:
    """Its containers go on; the next host takes them over and learns their exit codes."""
    wait = "while ! test -e release-$JOB_INDEX; do sleep 0.05; done"
    command = f"echo up; {wait}; echo end; exit $JOB_INDEX"
    muster.file("job.yaml", manifest(command, count=2, spec=GANG))
    run = muster.start("run", "job.yaml")
    assert run.stdout is not None
    seen = ""
    while seen.count("│ up") < 2:
        line = run.stdout.readline()
        assert line, seen
        seen += line
    os.kill(muster.host(), signal.SIGKILL)
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 3
    assert "is not lost" in err

    (job,) = muster.json("list")
    assert (job["state"], job["running"]) == ("running", 2), "read from the store"
    assert "the embedded cluster is not running; `muster up` continues" in muster.run("list").err
    up = muster.run("up", "--detach")
    assert up.err.endswith(f"continuing unfinished jobs: {job['name']}\n")
    (muster.cwd / "release-0").touch()
    # the failure of the other would end it
    until(lambda: muster.json("list")[0]["succeeded"] == 1, "the first to succeed")
    (muster.cwd / "release-1").touch()
    assert "worker-1-0 │ end" in muster.run("logs", "-f", "job").lines
    (job,) = muster.json("list")
    assert (job["state"], job["failed"]) == ("failed", 1)
    runs = muster.json("timeline", "job")
    codes = {run["job_index"]: run["exit_code"] for run in runs}
    assert (codes, len(runs)) == ({0: 0, 1: 1}, 2), "the same pods, with their own exit codes"
    assert sum("│ up" in line for line in muster.run("logs", "job").lines) == 2
    muster.environ["PYTHONIOENCODING"] = "ascii"
    assert sum("? up" in line for line in muster.run("logs", "job").lines) == 2
    assert "?" in muster.run("timeline", "job").out
    muster.run("down")
    gone(muster)


@pytest.mark.full
def test_down_uses_up_no_restarts(muster: Muster) -> None:
    command = "echo up; while ! test -e release; do sleep 0.05; done"
    muster.file("job.yaml", manifest(command, count=2, spec=GANG))
    name = muster.run("submit", "job.yaml").out.strip()
    until(lambda: muster.json("list")[0]["running"] == 2, "both pods")
    done = muster.run("down")
    assert done.out.startswith("stopped (pid ")
    assert done.lines[1:] == [f"interrupted {name}; `muster up` continues what has not finished"]
    assert not muster.processes()
    (muster.cwd / "release").touch()
    other = muster.file("other.yaml", manifest("true", name="other"))
    assert f"continuing unfinished jobs: {name}\n" in muster.run("run", other).err
    muster.run("logs", "-f", name)
    jobs = {job["name"]: job for job in muster.json("list")}
    assert (jobs[name]["state"], jobs[name]["restarts"], jobs[name]["failed"]) == ("succeeded", 0, 0)
    rows = muster.run("timeline", name).lines
    assert sum(row.endswith("ended with the cluster") for row in rows) == 2, rows
    gone(muster)


@pytest.mark.full
def test_a_job_that_no_longer_fits_after_down_waits_and_says_what_would_help(muster: Muster) -> None:
    muster.file("stuck.yaml", manifest("sleep 600", count=2, cpus=999, spec=GANG, name="stuck"))
    muster.run("up", "-d", "--nodes", "2 x cpu=1000,memory=64Gi")
    name = muster.run("submit", "stuck.yaml").out.strip()
    until(lambda: muster.json("list")[0]["running"] == 2, "both pods")
    muster.run("down")
    assert muster.json("list")[0]["state"] == "waiting"
    assert "exit code" not in muster.run("why", name).out, "it has not failed"
    other = muster.file("other.yaml", manifest("true", name="other"))
    err = muster.run("run", other).err
    assert f"note: the cluster stays up for {name}; `muster cancel {name}` or `muster down` ends that" in err

    def told() -> tuple[str, int, str]:
        job = muster.json("why", name)
        return job["state"], job["running"], (job["reason"] or {}).get("code", "")

    until(lambda: told() == ("waiting", 0, "NothingMatches"), "the reason")
    said = muster.run("why", name).lines
    assert any(line.endswith(f"with muster cancel {name}") for line in said), said
    (nodes,) = (line.partition("--nodes ")[2] for line in said if "would start" in line)
    muster.run("down")
    muster.run("up", "-d", "--nodes", nodes.strip('"'))
    until(lambda: muster.json("list")[0]["state"] == "running", "the remedy to help")
    muster.run("down")
    gone(muster)


@pytest.mark.full
def test_a_second_cluster_and_a_job_beyond_the_hosts_nodes_are_refused(muster: Muster) -> None:
    up = muster.run("up", "--detach", "--nodes", "1 x cpu=2,memory=1Gi,name=tiny")
    server, export = up.lines[-2:]
    assert server.startswith("the embedded cluster is at https://127.0.0.1:")
    assert export == f"export KUBECONFIG={muster.home}/kubeconfig"
    assert (muster.home / "kubeconfig").stat().st_mode & 0o777 == 0o600

    second = muster.run("up", code=2).err
    assert "is already running (1 x cpu=2,memory=1Gi,name=tiny, pid " in second
    other = muster.file("other.yaml", manifest("true"))
    assert "1 x cpu=2,memory=1Gi,name=tiny" in muster.run("run", other, "--nodes", "1 x cpu=3", code=2).err

    gpus = manifest("true").replace("memory: 0.1", "memory: 0.1, accelerators: {gpu: {count: 2}}")
    refused = muster.run("run", muster.file("gpus.yaml", gpus), code=2).err
    assert "there are no GPUs here" in refused
    assert "--nodes" in refused
    large = muster.run("submit", muster.file("large.yaml", manifest("true", cpus=3)), code=2).err
    assert "can never start here: NothingMatches" in large
    assert "--nodes" in large
    assert muster.json("list") == [], "what can never start was not submitted"

    # Two runs at once, each of which needs the whole machine.
    whole = muster.file("whole.yaml", manifest("sleep 0.3", cpus=2, name="whole"))
    runs = [muster.start("run", whole) for _ in range(2)]
    assert [run.communicate(timeout=PATIENCE) and run.returncode for run in runs] == [0, 0]
    spans = [muster.json("timeline", name)[0] for name in names(muster.json("list"))]
    times = [[datetime.fromisoformat(span[key]) for key in ("started", "ended")] for span in spans]
    (_, ended), (started, _) = sorted(times)
    assert ended <= started
    assert muster.json("nodes")[0]["name"] == "tiny-0"
    muster.run("down")
    gone(muster)


@pytest.mark.full
def test_a_taken_port_is_replaced(muster: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        muster.home.mkdir(0o700)
        (muster.home / "port").write_text(str(other.getsockname()[1]))
        up = muster.run("up", "-d")
        assert f":{other.getsockname()[1]}" not in up.out
        muster.run("down")
    gone(muster)


@pytest.mark.full
def test_up_in_the_foreground_until_ctrl_c(muster: Muster) -> None:
    up = muster.start("up")
    assert up.stdout is not None
    assert up.stdout.readline().startswith("the embedded cluster is at")
    up.send_signal(signal.SIGINT)
    up.communicate(timeout=PATIENCE)
    assert up.returncode == 0
    assert muster.run("down").out == "the embedded cluster was not running\n"
    gone(muster)


@pytest.mark.full
def test_logs_say_why_a_job_that_failed_has_printed_nothing(muster: Muster) -> None:
    muster.file("job.yaml", manifest("exit 4"))
    name = muster.run("run", "job.yaml", code=4).lines[0].partition(" ")[0]
    logs = muster.run("logs", "job")
    assert logs.out == ""
    assert logs.err.startswith(f"{name} has printed nothing: worker-0-0 exited with code 4 on ")


@pytest.mark.full
def test_a_container_that_starts_again_in_place_keeps_its_exit_code_and_all_its_output(
    muster: Muster,
) -> None:
    """Its Job stops it in the end, with a signal whose code says nothing."""
    script = "echo start; test -e stop && sleep 60; touch stop; echo wrong >&2; exit 9"
    container = {"name": "main", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "again"},
        "spec": {"backoffLimit": 0, "template": template},
    }
    muster.file("job.yaml", json.dumps(job))
    done = muster.run("run", "job.yaml", code=9)
    (result,) = [line for line in done.lines if line.startswith("failed in ")]
    assert " · 1 failed · BackoffLimitExceeded: " in result
    assert " exited with code 9 on " in result
    assert any("✗  exit 9 on " in line for line in done.lines)
    why = muster.run("why", "again")
    assert "exited with code 9 on " in why.out
    assert "    wrong" in why.lines
    assert (muster.json("list")[0]["failed"], muster.json("list")[0]["state"]) == (1, "failed")
    assert [run["exit_code"] for run in muster.json("timeline", "again")] == [9]
    printed = [line.partition(" │ ")[2] for line in muster.run("logs", "again").lines]
    assert printed[:2] == ["start", "wrong"]


def test_in_a_terminal_one_status_line_stays_and_ctrl_c_is_a_key(muster: Muster) -> None:
    muster.file("job.yaml", manifest("echo up; sleep 60", spec=GANG))
    terminal = Terminal(muster, "run", "job.yaml")
    terminal.until("│ \x1b[0mup")
    terminal.until("1 of 1 running")
    terminal.type("\x03")
    assert terminal.exit_code() == 130
    assert "\x1b[2K" in terminal.seen, "the line is drawn over"
    assert "cancelled (waited " in terminal.seen
    assert terminal.seen.rstrip("\r\n").splitlines()[-2].startswith("worker 0  ")
    gone(muster)


@pytest.mark.full
def test_a_terminal_is_given_what_it_can_take_and_bars_as_they_come(muster: Muster) -> None:
    command = "printf '\\r10%%\\r20%%\\033[2J'; while [ ! -e go ]; do sleep 0.05; done; echo; exec yes output"
    muster.file("job.yaml", manifest(command, count=2, spec=GANG))
    terminal = Terminal(muster, "run", "job.yaml")
    terminal.until("worker-0-0 │ 20%")
    muster.file("go", "")
    terminal.until("lines not shown")
    terminal.type("\x03")
    assert terminal.exit_code() == 130
    assert "cancelled (waited " in terminal.seen
    assert "muster logs job-" in terminal.seen, "where the rest is"
    assert "\x1b[2J" not in terminal.seen
    gone(muster)


@pytest.mark.full
def test_a_job_makes_room_for_one_that_ranks_higher_and_goes_on_after_it(muster: Muster) -> None:
    """Making room is no failure: the preempted job has none to spare."""
    muster.run("up", "-d", "--nodes", "2 x cpu=1,memory=1Gi,runtime=process")
    strict = "restartPolicy: {backoffLimit: 0}"
    command = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo low done"
    muster.file("low.yaml", manifest(command, count=2, cpus=1, spec=f"{GANG}\n  {strict}", name="low"))
    low = muster.start("run", "low.yaml")
    assert low.stdout is not None
    seen = ""
    while seen.count("│ begun") < 2:
        line = low.stdout.readline()
        assert line, seen
        seen += line
    urgent = "scheduling: {mode: gang, priorityClassName: system-cluster-critical}"
    muster.file("high.yaml", manifest("touch go", count=2, cpus=1, spec=f"{urgent}\n  {strict}", name="high"))
    assert any("2 succeeded" in line for line in muster.run("run", "high.yaml").lines)
    out, err = low.communicate(timeout=PATIENCE)
    assert low.returncode == 0, out + err
    assert out.count("│ begun") == 2, "it started again"
    assert "· 2 succeeded" in out
    assert "restart" not in out
    (gang,) = muster.json("why", "low")["gangs"]
    (entry,) = gang["preemptions"]
    assert entry["by"].startswith("default/high")
    assert entry["kind"] == "preemption"
    assert entry["lostResourceSeconds"] > 0
    assert "evicted for default/high" in muster.run("why", "low").out
    assert "evicted for default/high" in muster.run("timeline", "low").out
    muster.run("down")
    gone(muster)


@pytest.mark.full
def test_two_teams_share_a_cluster_by_weight(muster: Muster) -> None:
    """16 CPUs, weights 3 to 1: b's 4 are its share, a's 16 are more than 12."""
    muster.run("up", "-d", "--nodes", "1 x cpu=16,memory=16Gi,runtime=none")
    queue = "apiVersion: muster.dev/v1alpha1\nkind: Queue\nmetadata: {{name: {}}}\nspec: {{weight: {}}}\n"
    muster.file("queues.yaml", queue.format("a", 3) + "---\n" + queue.format("b", 1))
    assert muster.run("submit", "queues.yaml").lines == ["Queue a created", "Queue b created"]
    muster.file("bad.yaml", queue.format("c", 0))
    assert "spec.weight: Invalid value: 0" in muster.run("submit", "bad.yaml", code=2).err
    in_a = "scheduling: {mode: gang, queue: a}"
    muster.file("big.yaml", manifest("sleep 600", count=16, cpus=1, spec=in_a, name="big"))
    muster.file("small.yaml", manifest("sleep 600", count=4, cpus=1, spec=GANG, name="small"))
    muster.run("submit", "big.yaml")
    muster.run("submit", "--queue", "b", "small.yaml")

    def states() -> list[str]:
        return sorted(job["state"] for job in muster.json("list"))

    # alone, big is entitled to everything, and may have begun before small came
    until(lambda: states() in (["running", "waiting"], ["waiting", "running"]), "one to run")
    a, b, default = sorted(muster.json("queues"), key=lambda view: str(view["name"]))
    assert (a["entitled"]["cpu"], b["entitled"]["cpu"], default["entitled"]["cpu"]) == ("12", "4", "0")
    table = muster.run("queues").lines
    assert table[0].split()[:3] == ["QUEUE", "WEIGHT", "cpu"]
    assert [line.split()[0] for line in table[1:]] == ["a", "b", "default"]
    in_none = "scheduling: {mode: gang, queue: nosuch}"
    muster.file("lost.yaml", manifest("true", spec=in_none, name="lost"))
    refused = muster.run("submit", "--queue", "nosuch", "small.yaml", code=2).err
    assert "--queue nosuch: there is no queue nosuch" in refused
    warning = "there is no queue nosuch; there are a, b, default. The job waits until the queues are changed"
    assert warning in muster.run("submit", "lost.yaml").err
    capped = queue.format("prod", 1).replace("weight: 1", "weight: 1, capability: {cpu: 2}")
    muster.file("prod.yaml", capped)
    assert muster.run("submit", "prod.yaml").lines == ["Queue prod created"]
    in_prod = "scheduling: {mode: gang, queue: prod}"
    muster.file("large.yaml", manifest("true", count=3, cpus=1, spec=in_prod, name="large"))
    told = muster.run("submit", "large.yaml").err
    assert (
        "QuotaExceeded even if nothing else runs: queue prod uses 0 of its 2 CPUs; 3 more would be 3" in told
    )
    assert "there is no queue prod" in muster.run("check", "large.yaml").err
    assert (
        "there is no queue prod" in muster.run("check", "--nodes", "1 x cpu=9,memory=9Gi", "large.yaml").err
    )
    until(lambda: "there is no queue nosuch" in muster.run("why", "lost").out, "the reason")
    muster.run("down")
    gone(muster)

"""Pods as processes: their life, told by their status. Each test runs with namespaces and with the shim."""

import asyncio
import contextlib
import errno
import os
import socket
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.api.base import is_true
from muster.api.core_v1 import Pod, Quantities, Terminated
from muster.api.kinds import CONFIG_MAP, JOBSET, NODE, POD, SECRET
from muster.embedded.node import logparts
from muster.embedded.node import logs as logs_module
from muster.embedded.node.isolation import Isolation
from muster.kube.client import LogOptions
from muster.names import PREEMPTED
from tests.embedded.node.conftest import HERE, Cluster, marked_processes
from tests.embedded.node.virtual import VirtualClock
from tests.patience import PATIENCE

PYTHON = sys.executable


def terminated(pod: Pod, index: int = 0) -> Terminated:
    found = pod.status.container_statuses[index].state.terminated
    assert found is not None, pod.status
    return found


async def test_a_pod_runs_to_its_end_and_its_output_can_be_read(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.submit("hello", ["sh", "-c", "echo hello; echo $HOSTNAME >&2; exit 3"])
        pod = await cluster.ended("hello")
        assert pod.status.phase == "Failed"
        assert (terminated(pod).exit_code, terminated(pod).reason) == (3, "Error")
        assert pod.status.start_time is not None
        assert await cluster.output("hello") == "hello\nhello\n"
        assert await cluster.output("hello", tail=1) == "hello\n"


async def test_a_running_pod_is_ready_and_a_finished_one_is_not(cluster: Cluster) -> None:
    os.mkfifo(cluster.root / "fifo")
    async with cluster.running():
        await cluster.submit(
            "one", ["sh", "-c", "read line < fifo"], container={"workingDir": str(cluster.root)}
        )
        pod = await cluster.started("one")
        assert is_true(pod.status.conditions, "Ready")
        assert is_true(pod.status.conditions, "PodScheduled"), "what others wrote stays"
        await asyncio.to_thread((cluster.root / "fifo").write_text, "go\n")
        pod = await cluster.ended("one")
        assert pod.status.phase == "Succeeded"
        assert not is_true(pod.status.conditions, "Ready")


async def test_files_that_a_pod_writes_belong_to_the_caller(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.submit(
            "owner", ["sh", "-c", "id -u; touch made"], container={"workingDir": str(cluster.root)}
        )
        await cluster.ended("owner")
        assert await cluster.output("owner") == f"{os.getuid()}\n"
        assert (cluster.root / "made").stat().st_uid == os.getuid()


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (
            {"command": ["no-such-program"], "env": [{"name": "PATH", "value": "/usr/bin:/bin"}]},
            "command 'no-such-program' not found in PATH (2 directories)",
        ),
        ({"command": ["/no/such/file"]}, "command '/no/such/file': no such file"),
        ({"command": ["/etc/passwd"]}, "command '/etc/passwd': not executable"),
        ({"command": ["true"], "workingDir": "/no/such"}, "working directory '/no/such' does not exist"),
        ({}, "no command"),
    ],
)
async def test_a_container_that_cannot_be_started_fails_with_the_reason(
    cluster: Cluster, container: dict[str, object], message: str
) -> None:
    async with cluster.running():
        await cluster.submit("bad", container=container)
        pod = await cluster.ended("bad")
        assert pod.status.phase == "Failed"
        assert (terminated(pod).exit_code, terminated(pod).reason) == (128, "StartError")
        assert message in terminated(pod).message


async def test_deletion_gives_the_command_time_to_end(cluster: Cluster) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    async with cluster.running():
        await cluster.submit("polite", ["sh", "-c", script])
        await _says(cluster, "polite", "up")
        follower = asyncio.create_task(cluster.output("polite", follow=True))
        await asyncio.sleep(0)
        await cluster.client.delete(POD, "default", "polite")
        await cluster.gone("polite")
        assert await follower == "up\nasked\n"


async def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.submit("stubborn", ["sh", "-c", "trap '' TERM; echo up; sleep 1000; echo over"])
        await _says(cluster, "stubborn", "up")
        follower = asyncio.create_task(cluster.output("stubborn", follow=True))
        deleted = time.monotonic()
        await cluster.client.delete(POD, "default", "stubborn", grace_period=1)
        await cluster.gone("stubborn")
        assert time.monotonic() - deleted >= 1
        output = await follower
        assert output.startswith("up\n")
        assert "over" not in output


async def test_a_grace_period_can_be_cut_short(cluster: Cluster) -> None:
    async with cluster.running():
        script = "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
        await cluster.submit("stubborn", ["sh", "-c", script])
        await _says(cluster, "stubborn", "up")
        await cluster.client.delete(POD, "default", "stubborn", grace_period=600)
        await _says(cluster, "stubborn", "asked")
        assert marked_processes(cluster.root)
        await cluster.client.delete(POD, "default", "stubborn", grace_period=0)
        await cluster.gone("stubborn")
        await _none_left(cluster)


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], 'w').write('up')
        while True: time.sleep(1)
    os._exit(0)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
"""


async def test_a_daemon_that_forked_twice_ends_with_its_container(cluster: Cluster) -> None:
    flag = cluster.root / "daemon"
    async with cluster.running():
        await cluster.submit("daemon", [PYTHON, "-c", DAEMON, str(flag)])
        pod = await cluster.ended("daemon")
        assert pod.status.phase == "Succeeded"
        assert flag.read_text() == "up"
        assert marked_processes(cluster.root) == []


HIDDEN = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve('/bin/sh', ['sh', '-c', 'echo up >"$0"; while :; do sleep 1; done', sys.argv[1]], {})
    os._exit(0)
while not os.path.exists(sys.argv[1]): pass
"""


async def test_a_daemon_that_emptied_its_environment_is_found_all_the_same(cluster: Cluster) -> None:
    flag = cluster.root / "daemon"
    async with cluster.running():
        await cluster.submit("daemon", [PYTHON, "-c", HIDDEN, str(flag)])
        assert (await cluster.ended("daemon")).status.phase == "Succeeded"
        assert not _named_on_a_command_line(flag)


async def test_a_daemon_with_an_empty_environment_does_not_outlive_a_crash(cluster: Cluster) -> None:
    flag = cluster.root / "daemon"
    async with cluster.running():
        await cluster.submit("daemon", [PYTHON, "-c", HIDDEN + "import time; time.sleep(1000)", str(flag)])
        await _exists(flag)
    await cluster.client.delete(POD, "default", "daemon", grace_period=0)
    async with cluster.running():
        assert not _named_on_a_command_line(flag)


def _named_on_a_command_line(path: Path) -> list[bytes]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # one that has just gone
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            found += [line] if os.fsencode(path) in line else []
    return found


async def test_a_daemon_ends_with_the_deletion_of_its_pod(cluster: Cluster) -> None:
    flag = cluster.root / "daemon"
    async with cluster.running():
        await cluster.submit("daemon", [PYTHON, "-c", DAEMON + "time.sleep(1000)", str(flag)])
        await _exists(flag)
        await cluster.client.delete(POD, "default", "daemon", grace_period=0)
        await _none_left(cluster)


async def test_output_is_bounded_however_much_there_is(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "FILE_BYTES", 2**20)
    async with cluster.running():
        await cluster.submit("loud", ["sh", "-c", "head -c 30000000 /dev/zero; echo the end"])
        pod = await cluster.ended("loud")
        assert pod.status.phase == "Succeeded"
        kept = sum(path.stat().st_size for path in (cluster.root / "logs").rglob("*.log*"))
        assert 2**20 <= kept <= (logparts.KEEP + 1) * (2**20 + logparts.CHUNK)
        assert (await cluster.output("loud", tail=1)).endswith("the end\n")


async def test_a_full_disk_loses_output_and_nothing_else(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    refused = asyncio.Event()
    write = os.write

    def refuse_while_full(fd: int, content: bytes) -> int:
        if full and os.readlink(f"/proc/self/fd/{fd}").endswith(".log"):
            refused.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, content)

    monkeypatch.setattr(os, "write", refuse_while_full)
    release = cluster.root / "release"
    script = f"echo lost; while ! [ -e {release} ]; do sleep 0.02; done; echo kept; exit 7"
    async with cluster.running():
        pod = await cluster.submit("full", ["sh", "-c", script])
        async with asyncio.timeout(PATIENCE):
            await refused.wait()  # the output is taken, and there is no place for it
        full = False
        release.touch()
        pod = await cluster.ended("full")
        assert terminated(pod).exit_code == 7
        assert (
            await cluster.output("full")
            == "\n[muster: 5 bytes of output lost: the disk was nearly full]\nkept\n"
        )


async def test_environment_and_references(cluster: Cluster) -> None:
    caller = f'{{"cwd": "{cluster.root}", "PATH": "/usr/bin:/bin", "HOME": "/root/me", "LANG": "C"}}'
    env = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)$(A) $$(A) $(NONE)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "c"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "s"}}},
    ]
    async with cluster.running():
        await cluster.submit(
            "env",
            ["sh", "-c", 'pwd; echo "$HOME|$LANG|$B|$IP|$C|$S|$0"', "$(A)!"],
            container={"env": env},
            metadata={"annotations": {"muster.dev/caller": caller}},
        )
        pod = await cluster.until("env", lambda pod: _waits(pod, "CreateContainerConfigError"))
        state = pod.status.container_statuses[0].state.waiting
        assert state is not None
        assert "configmap 'conf' not found" in state.message
        await cluster.client.create(
            CONFIG_MAP, "default", {"metadata": {"name": "conf"}, "data": {"c": "see"}}
        )
        await cluster.client.create(
            SECRET, "default", {"metadata": {"name": "sec"}, "stringData": {"s": "es"}}
        )
        pod = await cluster.ended("env")
        output = await cluster.output("env")
        ip = pod.status.pod_ip
        assert output == f"{cluster.root}\n/root/me|C|aa $(A) $(NONE)|{ip}|see|es|a!\n"


async def test_volumes_are_where_they_are_mounted(cluster: Cluster) -> None:
    """At a path that does not exist: on the machine with the shim, in the pod's view with namespaces."""
    data, host = cluster.root / "mnt", cluster.root / "host"
    host.mkdir()
    (host / "there").write_text("host file\n")
    await cluster.client.create(CONFIG_MAP, "default", {"metadata": {"name": "conf"}, "data": {"k": "v\n"}})
    mounts = [
        {"name": "conf", "mountPath": f"{data}/conf"},
        {"name": "scratch", "mountPath": f"{data}/scratch"},
        {"name": "host", "mountPath": f"{data}/host"},
    ]
    script = f"cd {data}; cat conf/k host/there; echo new > scratch/file; cat scratch/file; echo w > host/w"
    async with cluster.running():
        await cluster.submit(
            "volumes",
            ["sh", "-c", script],
            container={"volumeMounts": mounts},
            volumes=[
                {"name": "conf", "configMap": {"name": "conf"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "host", "hostPath": {"path": str(host)}},
            ],
        )
        pod = await cluster.ended("volumes")
        assert await cluster.output("volumes") == "v\nhost file\nnew\n", terminated(pod).message
        assert (host / "w").read_text() == "w\n"
        assert not list((cluster.root / "node/pods").iterdir()), "a pod's volumes go with it"


async def test_a_shared_volume_outlives_the_pods_that_end_first(cluster: Cluster) -> None:
    mount, release = cluster.root / "mnt/shared", cluster.root / "release"
    volume = {"path": f"{cluster.root}/shared/default/js", "type": "DirectoryOrCreate"}
    jobset = {
        "metadata": {"name": "js", "annotations": {"muster.dev/shared-volume": "true"}},
        "spec": {
            "replicatedJobs": [
                {
                    "name": "a",
                    "template": {
                        "spec": {
                            "template": {
                                "spec": {
                                    "restartPolicy": "Never",
                                    "containers": [{"name": "main", "command": ["true"]}],
                                }
                            }
                        }
                    },
                }
            ]
        },
    }
    async with cluster.running():
        await cluster.client.create(JOBSET, "default", jobset)
        wait = f"while ! [ -e {release} ]; do sleep 0.02; done; cat {mount}/file {mount}/other"
        memory = {"name": "memory", "emptyDir": {"medium": "Memory"}}
        for name, script in (
            ("long", f"echo 1 > {mount}/file; {wait}"),
            ("short", f"echo 2 > {mount}/other"),
        ):
            await cluster.submit(
                name,
                ["sh", "-c", script],
                container={
                    "volumeMounts": [
                        {"name": "shared", "mountPath": str(mount)},
                        {"name": "memory", "mountPath": "/dev/shm"},
                    ]
                },
                volumes=[{"name": "shared", "hostPath": volume}, memory],
            )
        assert (await cluster.ended("short")).status.phase == "Succeeded"
        release.touch()
        await cluster.ended("long")
        assert await cluster.output("long") == "1\n2\n"
        await cluster.client.delete(JOBSET, "default", "js")
        async with asyncio.timeout(PATIENCE):
            while "js" in os.listdir(cluster.root / "shared/default"):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.02)


async def test_a_shared_volume_ends_with_its_job_and_the_last_of_its_pods(cluster: Cluster) -> None:
    shared, release = cluster.root / "shared/default/js", cluster.root / "release"
    body = {"metadata": {"name": "js", "annotations": {"muster.dev/shared-volume": "true"}}, "spec": {}}
    async with cluster.running():
        await cluster.client.create(JOBSET, "default", body)
        await cluster.submit(
            "one",
            ["sh", "-c", f"while ! [ -e {release} ]; do sleep 0.02; done; test -d {shared}"],
            volumes=[{"name": "shared", "hostPath": {"path": str(shared), "type": "DirectoryOrCreate"}}],
            metadata={"labels": {"jobset.sigs.k8s.io/jobset-name": "js"}},
        )
        await cluster.until("one", lambda pod: pod.status.phase == "Running")
        finished = {"status": {"terminalState": "Completed"}}
        await cluster.client.patch(JOBSET, "default", "js", finished, subresource="status")
        release.touch()
        assert (await cluster.ended("one")).status.phase == "Succeeded", "it was there to the end"
        async with asyncio.timeout(PATIENCE):
            while shared.exists():  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.02)


async def test_an_annotation_names_nothing_that_is_deleted(cluster: Cluster) -> None:
    """Only the directory that follows from namespace and name goes with a JobSet."""
    kept = [
        cluster.root / name / "file" for name in ("logs/default", "shared/default/other", "shared/default/js")
    ]
    async with cluster.running():
        for file in kept:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        for value in (str(cluster.root / "logs"), str(cluster.root / "shared"), "false", "../logs", ""):
            body = {
                "metadata": {"name": "js", "annotations": {"muster.dev/shared-volume": value}},
                "spec": {},
            }
            await cluster.client.create(JOBSET, "default", body)
            await cluster.client.delete(JOBSET, "default", "js")
        body["metadata"]["annotations"] = {"muster.dev/shared-volume": "true"}
        await cluster.client.create(JOBSET, "default", body)
        await cluster.client.delete(JOBSET, "default", "js")
        async with asyncio.timeout(PATIENCE):
            while kept[-1].exists():  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.02)
        assert all(file.exists() for file in kept[:-1])


async def test_a_volume_at_the_root_of_the_file_system(cluster: Cluster) -> None:
    if not cluster.isolation.namespaces:
        pytest.skip("only with namespaces can a mount point be made in /")
    async with cluster.running():
        await cluster.submit(
            "rooted",
            [
                "sh",
                "-c",
                "echo here > /muster-test-data/deep/file; cat /muster-test-data/deep/file; ls /proc/self/fd",
            ],
            container={"volumeMounts": [{"name": "scratch", "mountPath": "/muster-test-data/deep"}]},
            volumes=[{"name": "scratch", "emptyDir": {}}],
        )
        await cluster.ended("rooted")
        assert (await cluster.output("rooted")).split()[:2] == ["here", "0"]
        assert "muster-test-data" not in os.listdir("/")


async def test_init_containers_come_first_and_sidecars_last(cluster: Cluster) -> None:
    side = "trap 'echo side ends >> log; exit 0' TERM; echo side >> log; while :; do sleep 0.05; done"
    inits = [
        {"name": "first", "command": ["sh", "-c", "echo first >> log"]},
        {"name": "side", "command": ["sh", "-c", side], "restartPolicy": "Always"},
        {
            "name": "second",
            "command": ["sh", "-c", "while ! grep -q side log; do sleep 0.02; done; echo second >> log"],
        },
    ]
    for init in inits:
        init["workingDir"] = str(cluster.root)
    async with cluster.running():
        await cluster.submit(
            "ordered",
            ["sh", "-c", "echo main >> log"],
            container={"workingDir": str(cluster.root)},
            initContainers=inits,
        )
        pod = await cluster.ended("ordered")
        assert pod.status.phase == "Succeeded"
        assert (cluster.root / "log").read_text().splitlines() == [
            "first",
            "side",
            "second",
            "main",
            "side ends",
        ]
        assert [c.name for c in pod.status.init_container_statuses] == ["first", "side", "second"]


async def test_a_failed_init_container_fails_the_pod(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.submit("init", ["true"], initContainers=[{"name": "bad", "command": ["false"]}])
        pod = await cluster.ended("init")
        assert pod.status.phase == "Failed"
        assert pod.status.container_statuses[0].state.waiting is not None


async def test_a_failed_container_starts_again_if_the_policy_says_so(cluster: Cluster) -> None:
    script = 'n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; echo "run $n"; [ $n = 1 ]'
    async with cluster.running():
        await cluster.submit(
            "again",
            ["sh", "-c", script],
            container={"workingDir": str(cluster.root)},
            restartPolicy="OnFailure",
        )
        pod = await cluster.ended("again")
        assert pod.status.phase == "Succeeded"
        assert pod.status.container_statuses[0].restart_count == 1
        assert pod.status.container_statuses[0].last_state.terminated is not None
        assert await cluster.output("again") == "run 1\n"
        assert await cluster.output("again", previous=True) == "run 0\n"


async def test_restarts_back_off(tmp_path: Path, isolation: Isolation) -> None:
    clock = VirtualClock()
    cluster = Cluster(tmp_path, isolation, [HERE], clock)
    async with cluster.running():
        await cluster.submit("loop", ["false"], restartPolicy="Always")
        for restarts, delay in enumerate((10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0), 1):
            pod = await cluster.until("loop", lambda pod: _waits_after(pod, restarts))  # noqa: B023
            assert clock.slept[-1] == delay
            assert pod.status.phase == "Running"
            clock.advance(delay)
        await cluster.client.delete(POD, "default", "loop")
        await cluster.gone("loop")


async def test_a_deadline_of_a_pod_ends_it(tmp_path: Path, isolation: Isolation) -> None:
    clock = VirtualClock()
    cluster = Cluster(tmp_path, isolation, [HERE], clock)
    async with cluster.running():
        await cluster.submit("late", ["sleep", "1000"], activeDeadlineSeconds=100)
        await cluster.started("late")
        clock.advance(100)
        pod = await cluster.ended("late")
        assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
        assert terminated(pod).exit_code == 143


async def test_a_set_up_that_fails_says_why(cluster: Cluster) -> None:
    if not cluster.isolation.namespaces:
        pytest.skip("without namespaces the wrapper mounts nothing")
    async with cluster.running():
        await cluster.submit(
            "bad",
            ["true"],
            volumes=[{"name": "v", "emptyDir": {}}],
            container={"volumeMounts": [{"name": "v", "mountPath": "/etc/passwd"}]},
        )
        pod = await cluster.ended("bad")
        assert terminated(pod).reason == "StartError"
        assert "/etc/passwd" in terminated(pod).message


async def test_a_variable_that_no_process_can_have_is_an_error_of_the_start(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.client.create(CONFIG_MAP, "default", {"metadata": {"name": "c"}, "data": {"k": "a\0"}})
        source = {"configMapKeyRef": {"name": "c", "key": "k"}}
        container = {"env": [{"name": "A", "valueFrom": source}]}
        await cluster.submit("nul", ["true"], container=container)
        pod = await cluster.ended("nul")
        assert terminated(pod).reason == "StartError"
        assert "null byte" in terminated(pod).message


async def test_probes(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["test", "-e", "ok"]}, "periodSeconds": 1, "timeoutSeconds": int(PATIENCE)}
    async with cluster.running():
        await cluster.submit(
            "probed",
            ["sleep", "1000"],
            container={
                "workingDir": str(cluster.root),
                "readinessProbe": probe,
                "livenessProbe": {
                    **probe,
                    "exec": {"command": ["test", "!", "-e", "dead"]},
                    "failureThreshold": 1,
                },
            },
        )
        pod = await cluster.started("probed")
        assert not pod.status.container_statuses[0].ready
        (cluster.root / "ok").touch()
        await cluster.until("probed", lambda pod: is_true(pod.status.conditions, "Ready"))
        (cluster.root / "dead").touch()
        pod = await cluster.ended("probed")
        assert terminated(pod).exit_code == 143
        assert "liveness probe failed 1 times" in terminated(pod).message


async def test_a_port_in_use_is_recognised(cluster: Cluster) -> None:
    script = "import socket, sys; s = socket.socket(); s.bind(('0.0.0.0', int(sys.argv[1])))"
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        async with cluster.running():
            await cluster.submit("port", [PYTHON, "-c", script, str(taken.getsockname()[1])])
            pod = await cluster.ended("port")
    assert "the network is shared" in terminated(pod).message
    assert "the network is shared" in pod.status.message


async def test_an_agent_that_comes_back_goes_on_with_its_containers(cluster: Cluster) -> None:
    release = cluster.root / "release"
    script = f"echo before; while ! [ -e {release} ]; do sleep 0.02; done; echo after; exit 5"
    async with cluster.running():
        await cluster.submit("survivor", ["sh", "-c", script])
        await _says(cluster, "survivor", "before")
    assert marked_processes(cluster.root), "a crash of muster leaves containers running"
    async with cluster.running():
        pod = await cluster.get("survivor")
        assert pod.status.phase == "Running"
        release.touch()
        pod = await cluster.ended("survivor")
        assert terminated(pod).exit_code == 5
        assert pod.status.container_statuses[0].restart_count == 0
        assert await cluster.output("survivor") == "before\nafter\n"


async def test_a_container_that_ended_while_no_host_ran_keeps_its_status(cluster: Cluster) -> None:
    release = cluster.root / "release"
    script = f"echo before; while ! [ -e {release} ]; do sleep 0.02; done; echo after; exit 5"
    async with cluster.running():
        pod = await cluster.submit("alone", ["sh", "-c", script])
        await _says(cluster, "alone", "before")
    release.touch()
    async with asyncio.timeout(PATIENCE):
        while marked_processes(cluster.root):  # noqa: ASYNC110  # a wrapper waits for no muster
            await asyncio.sleep(0.02)
    files = cluster.root / "node/pods" / pod.metadata.uid / "main/0"
    now = time.time()
    for name, ago in (("started", 200), ("exit", 100)):
        os.utime(files / name, (now - ago,) * 2)
    async with cluster.running():
        pod = await cluster.ended("alone")
        state = terminated(pod)
        assert state.exit_code == 5
        assert state.started_at is not None
        assert state.finished_at is not None
        assert (state.finished_at - state.started_at).total_seconds() == pytest.approx(100, abs=2)
        assert datetime.now(UTC) - state.finished_at >= timedelta(seconds=99)
        assert await cluster.output("alone") == "before\nafter\n"


async def test_a_container_that_is_gone_when_muster_comes_back_is_reported(cluster: Cluster) -> None:
    async with cluster.running():
        flag = cluster.root / "up"
        await cluster.submit("victim", ["sh", "-c", f"touch {flag}; exec sleep 1000"])
        await _exists(flag)  # while a process enters its namespaces its environment cannot be read
    async with asyncio.timeout(PATIENCE):
        while left := marked_processes(cluster.root):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):  # gone with the first of its namespace
                    os.kill(pid, 9)
            await asyncio.sleep(0.02)
    async with cluster.running():
        pod = await cluster.ended("victim")
        assert terminated(pod).reason == "ContainerStatusUnknown"
        assert terminated(pod).exit_code == 137


async def test_processes_of_a_pod_that_is_gone_are_stopped(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.submit("orphan", ["sleep", "1000"])
        await cluster.started("orphan")
    await cluster.client.delete(POD, "default", "orphan", grace_period=0)
    async with cluster.running():
        assert marked_processes(cluster.root) == []


async def test_shutdown_ends_all_and_says_so(cluster: Cluster) -> None:
    async with cluster.running() as agent:
        await cluster.submit("one", ["sleep", "1000"])
        await cluster.started("one")
        await agent.shutdown()
        pod = await cluster.get("one")
        assert (pod.status.phase, pod.status.reason) == ("Failed", "Terminated")
        assert is_true(pod.status.conditions, PREEMPTED), "no failure is counted"
        assert marked_processes(cluster.root) == []


async def test_files_of_pods_are_private(cluster: Cluster) -> None:
    async with cluster.running():
        assert (cluster.root / "node").stat().st_mode & 0o777 == 0o700


async def test_nodes_are_written_and_those_of_before_removed(cluster: Cluster) -> None:
    async with cluster.running():
        node = await cluster.client.get(NODE, "", "here")
        assert is_true(node.status.conditions, "Ready")
        assert node.metadata.labels["muster.dev/runtime"] == "process"
        assert node.status.allocatable["cpu"] == "64"
    cluster.nodes = [type(cluster.nodes[0])("there", {"cpu": 1})]
    async with cluster.running():
        page = await cluster.client.list(NODE)
        assert [node.metadata.name for node in page.items] == ["there"]


async def test_a_restarted_node_has_its_new_specification_and_keeps_what_users_wrote_on_it(
    cluster: Cluster,
) -> None:
    spec = type(cluster.nodes[0])
    large: Quantities = {"cpu": 4, "memory": "8Gi", "pods": 110, "nvidia.com/gpu": 8}
    cluster.nodes = [spec("n", large, {"zone": "a", "nvidia.com/gpu.product": "X"})]
    async with cluster.running():
        metadata = {"labels": {"mine": "1"}}
        await cluster.client.patch(NODE, "", "n", {"metadata": metadata, "spec": {"unschedulable": True}})
    cluster.nodes = [spec("n", {"cpu": 2, "memory": "1Gi", "pods": 110}, {"rack": "b"})]
    async with cluster.running():
        node = await cluster.client.get(NODE, "", "n")
        assert node.status.capacity == node.status.allocatable == {"cpu": "2", "memory": "1Gi", "pods": "110"}
        own = {"kubernetes.io/hostname": "n", "kubernetes.io/os": "linux", "muster.dev/runtime": "process"}
        assert node.metadata.labels == {**own, "rack": "b", "mine": "1"}
        assert node.spec.unschedulable


async def test_pods_end_with_their_node_and_no_failure_is_counted(cluster: Cluster) -> None:
    async with cluster.running():
        for name in ("one", "deleted"):
            await cluster.submit(name, ["sleep", "1000"])
            await cluster.started(name)
    await cluster.client.delete(POD, "default", "deleted", grace_period=1000)
    cluster.nodes = [type(cluster.nodes[0])("there", {"cpu": 1})]
    for _ in range(2):  # the second start finds no node to remove
        async with cluster.running():
            pod = await cluster.ended("one")
            assert (pod.status.phase, pod.status.reason) == ("Failed", "NodeLost")
            assert terminated(pod).exit_code == 137
            assert is_true(pod.status.conditions, PREEMPTED)
            await cluster.gone("deleted")
            assert marked_processes(cluster.root) == []


def test_a_machine_without_namespaces_says_what_is_weaker() -> None:
    told = Isolation(namespaces=False, reason="unshare: denied").degradation()
    assert told is not None
    assert "unshare: denied" in told
    assert Isolation(namespaces=True).degradation() is None


def _waits(pod: Pod, reason: str) -> bool:
    states = [status.state.waiting for status in pod.status.container_statuses]
    return any(state is not None and state.reason == reason for state in states)


def _waits_after(pod: Pod, restarts: int) -> bool:
    """Whether the pod waits for its next start after so many. Its running may be too short to be seen."""
    return _waits(pod, "CrashLoopBackOff") and pod.status.container_statuses[0].restart_count == restarts


async def _says(cluster: Cluster, name: str, line: str) -> None:
    """Until the pod's output has this line."""
    pod = await cluster.get(name)
    async with asyncio.timeout(PATIENCE):
        text = ""
        async for chunk in cluster.logs.read(
            "default", name, pod.metadata.uid, "main", LogOptions(follow=True)
        ):
            text += chunk.decode()
            if line in text.splitlines():
                return
    raise AssertionError(f"{name} ended without saying {line!r}: {text!r}")


async def _exists(path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while path.name not in os.listdir(path.parent):  # noqa: ASYNC110  # made by another process
            await asyncio.sleep(0.02)


async def _none_left(cluster: Cluster) -> None:
    async with asyncio.timeout(PATIENCE):
        while marked_processes(cluster.root):  # noqa: ASYNC110  # the kernel sends no event
            await asyncio.sleep(0.02)

"""Programs that join by the variables of their training framework, as pods of real processes.

`JOIN` reads the variables as `torch.distributed.init_process_group("env://")` and `torchrun` do. The real
frameworks are tried if `MUSTER_FRAMEWORKS` is the path of a Python that has torch and jax.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.binary import Muster

JOIN = '''
import os, socket, subprocess, sys

def say(*words):
    """A line in one write: of a line that is printed in pieces, other processes may print in between."""
    sys.stdout.write(" ".join(map(str, words)) + "\\n")

def join(what):
    """Rank 0 waits for all others; all end once it has counted them."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        server = socket.create_server(at, backlog=world)
        peers = [server.accept()[0] for _ in range(world - 1)]
        ranks = sorted(int(peer.makefile().readline()) for peer in peers)
        assert ranks == list(range(1, world)), ranks
        for peer in peers:
            peer.sendall(b"all\\n")
        say(what, "joined", world)
    else:
        while True:
            try:
                peer = socket.create_connection(at)
                break
            except OSError:
                pass
        peer.sendall(b"%d\\n" % rank)
        assert peer.makefile().readline() == "all\\n"
    say(what, "rank", rank, "local", os.environ["LOCAL_RANK"])

def launch():
    """What torchrun without arguments does."""
    asked = {name: os.environ["PET_" + name] for name in
             ("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT")}
    each, node = int(asked["NPROC_PER_NODE"]), int(asked["NODE_RANK"])
    given = {"WORLD_SIZE": str(each * int(asked["NNODES"])), "LOCAL_WORLD_SIZE": str(each),
             "MASTER_ADDR": asked["MASTER_ADDR"], "MASTER_PORT": asked["MASTER_PORT"]}
    made = [subprocess.Popen([sys.executable, __file__, "worker"], env={**os.environ, **given,
            "LOCAL_RANK": str(local), "RANK": str(node * each + local)}) for local in range(each)]
    sys.exit(max(abs(process.wait()) for process in made))

launch() if sys.argv[1] == "launch" else join(sys.argv[1])
'''
TORCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
one = torch.ones(1)
dist.all_reduce(one)
assert int(one) == dist.get_world_size()
print("joined", int(one), "local", os.environ["LOCAL_RANK"], flush=True)
dist.destroy_process_group()
"""
JAX = """
import os, jax
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
print("joined", jax.process_count(), flush=True)
"""
NODES = "2 x cpu=8,memory=8Gi,nvidia.com/gpu=2"
REAL = os.environ.get("MUSTER_FRAMEWORKS", "")
real = pytest.mark.skipif(not REAL, reason="MUSTER_FRAMEWORKS names no Python that has torch and jax")


def job(command: list[str], framework: str = "PyTorch", gpus: int = 2) -> str:
    container = {"name": "main", "command": command, "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    preflight = {"name": "preflight", "command": ["sh", "-c", "echo preflight $RANK of $WORLD_SIZE"]}
    pod = {"restartPolicy": "Never", "initContainers": [preflight], "containers": [container]}
    group = {
        "name": "node",
        "replicas": 2,
        "template": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
    }
    board = {"name": "main", "command": ["sh", "-c", "echo board ${RANK-none}"]}
    alone = {"spec": {"restartPolicy": "Never", "containers": [board]}}
    metadata = {
        "name": "ddp",
        "labels": {"muster.dev/gang": "true"},
        "annotations": {"muster.dev/training": framework, "muster.dev/trainers": "node"},
    }
    groups = [group, {"name": "board", "template": {"spec": {"template": alone}}}]
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    return json.dumps({**kind, "metadata": metadata, "spec": {"replicatedJobs": groups}})


def run(muster: Muster, text: str) -> list[str]:
    muster.file("job.yaml", text)
    lines = muster.run("run", "job.yaml", "--nodes", NODES).lines
    return sorted(line.partition(" │ ")[2] for line in lines if " │ " in line)


@pytest.fixture(autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Not at once with another of these: pods of two embedded clusters may have one address, and one port."""
    with (tmp_path_factory.getbasetemp().parent / "training.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_one_process_per_pod_joins_as_many_as_there_are_pods(muster: Muster) -> None:
    muster.file("join.py", JOIN)
    assert run(muster, job(["python3", "join.py", "pod"])) == [
        "board none",
        "pod joined 2",
        "pod rank 0 local 0",
        "pod rank 1 local 0",
        "preflight 0 of 2",
        "preflight 1 of 2",
    ]


@pytest.mark.full
def test_a_launcher_without_arguments_joins_one_process_per_gpu(muster: Muster) -> None:
    muster.file("join.py", JOIN)
    lines = run(muster, job(["python3", "join.py", "launch"]))
    assert [line for line in lines if line.startswith("worker")] == [
        "worker joined 4",
        "worker rank 0 local 0",
        "worker rank 1 local 1",
        "worker rank 2 local 0",
        "worker rank 3 local 1",
    ]


@real
def test_torch_joins_by_its_environment(muster: Muster) -> None:
    muster.file("main.py", TORCH)
    lines = run(muster, job([REAL, "main.py"]))
    assert [line for line in lines if line.startswith("joined")] == ["joined 2 local 0"] * 2


@real
def test_torchrun_needs_no_arguments(muster: Muster) -> None:
    muster.file("main.py", TORCH)
    lines = run(muster, job([str(Path(REAL).with_name("torchrun")), "main.py"]))
    assert [line for line in lines if line.startswith("joined")] == [
        *["joined 4 local 0"] * 2,
        *["joined 4 local 1"] * 2,
    ]


@real
def test_jax_joins_by_its_environment(muster: Muster) -> None:
    muster.file("main.py", JAX)
    lines = run(muster, job([REAL, "main.py"], "Jax"))
    assert [line for line in lines if line.startswith("joined")] == ["joined 2"] * 2

"""What this machine offers: from files as the kernel writes them."""

import os
from pathlib import Path

import pytest

from muster.api import quantity
from muster.embedded import machine
from muster.names import GPU, GPU_PRODUCT


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"}, 500),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, None),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "25000",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            250,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
)
def test_cpus_are_those_we_may_use(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    assert machine.cpus(write(tmp_path, files)) == (expected or len(os.sched_getaffinity(0)) * 1000)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 16 * 2**20),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 2**20),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 16 * 2**20),
        (
            {"proc/self/cgroup": "4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2097152"},
            2 * 2**20,
        ),
    ],
)
def test_memory_is_within_the_limit(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert machine.memory(write(tmp_path, MEMINFO | files)) == expected


def test_gpus_by_device_files(tmp_path: Path) -> None:
    root = write(tmp_path, {f"dev/nvidia{n}": "" for n in ("0", "1", "10", "2", "ctl", "-uvm")})
    nothing = {"PATH": ""}
    assert [gpu.index for gpu in machine.find_gpus(root, nothing)] == ["0", "1", "2", "10"]
    visible = nothing | {"CUDA_VISIBLE_DEVICES": "2, 0"}
    assert [gpu.index for gpu in machine.find_gpus(root, visible)] == ["0", "2"]
    assert machine.find_gpus(root, nothing | {"CUDA_VISIBLE_DEVICES": ""}) == []


def test_gpus_by_the_drivers_tool(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, NVIDIA A100-SXM4-80GB'\necho '1, NVIDIA A100-SXM4-80GB'\n")
    tool.chmod(0o755)
    node = machine.node(write(tmp_path, MEMINFO), {"PATH": str(tmp_path)})
    assert node.gpus == ("0", "1")
    assert node.resources[GPU] == 2
    assert node.labels == {GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB"}


def test_a_driver_that_fails_means_no_gpus(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'cannot talk to the driver'\nexit 9\n")
    tool.chmod(0o755)
    node = machine.node(write(tmp_path, MEMINFO), {"PATH": str(tmp_path)})
    assert GPU not in node.resources


def test_this_machine() -> None:
    node = machine.node()
    assert node.name
    assert node.runtime == "process"
    assert machine.memory() > 2**20
    assert quantity.parse(str(machine.node().resources["ephemeral-storage"])) > 2**20

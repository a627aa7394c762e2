"""This machine as a node: the resources that pods may use.

CPUs are those on which this process may run, within its cgroup's quota. Memory is within its cgroup's limit:
in a container or under `taskset` a node must not promise more than there is. GPUs are listed by `nvidia-smi`,
or counted as /dev/nvidia0, 1, …; CUDA_VISIBLE_DEVICES may restrict them.
"""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from muster.api.core_v1 import Quantities
from muster.embedded.nodespec import NodeSpec
from muster.names import GPU, GPU_PRODUCT

PODS: Final = 1000  # processes are cheaper than containers
_MiB: Final = 2**20
_SMI_SECONDS: Final = 10.0


class Gpu(msgspec.Struct, frozen=True):
    index: str
    product: str = ""


def node(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> NodeSpec:
    """This machine as a NodeSpec; `root` is the directory of the machine's files."""
    gpus = find_gpus(root, os.environ if environ is None else environ)
    resources: Quantities = {
        "cpu": f"{cpus(root)}m",
        "memory": f"{memory(root) // _MiB}Mi",
        "ephemeral-storage": f"{storage(root) // _MiB}Mi",
        "pods": PODS,
    }
    labels = {}
    if gpus:
        resources[GPU] = len(gpus)
        products = sorted({gpu.product for gpu in gpus if gpu.product})
        if products:
            labels[GPU_PRODUCT] = re.sub(r"[^-A-Za-z0-9_.]+", "-", products[0])[:63]
    return NodeSpec(name(), resources, labels, gpus=tuple(gpu.index for gpu in gpus))


def name() -> str:
    """The machine's host name as a node's name."""
    text = re.sub(r"[^-a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    return text[:63].strip("-") or "local"


def cpus(root: Path = Path("/")) -> int:
    """The CPUs that this process may use, in milli-CPU."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for directory in _cgroups(root, "cpu") if (quota := _cpu_quota(directory)) is not None]
    return min([affinity * 1000, *quotas])


def memory(root: Path = Path("/")) -> int:
    """The memory that this process may use, in bytes."""
    limits = []
    for directory in _cgroups(root, "memory"):
        for file in ("memory.max", "memory.limit_in_bytes"):
            text = _read(directory / file)
            if text.isdigit():
                limits.append(int(text))
    match = re.search(r"MemTotal:\s+(\d+) kB", _read(root / "proc/meminfo"))
    total = int(match[1]) * 1024 if match else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *limits])


def storage(root: Path = Path("/")) -> int:
    """The size of the file system that pods write to, in bytes; what is in use counts, as on a kubelet."""
    return shutil.disk_usage(root).total


def find_gpus(root: Path, environ: Mapping[str, str]) -> list[Gpu]:
    """Real GPUs in the driver's order."""
    found = _from_smi(environ) or [
        Gpu(path.name.removeprefix("nvidia"))
        for path in sorted((root / "dev").glob("nvidia[0-9]*"), key=lambda p: (len(p.name), p.name))
        if path.name.removeprefix("nvidia").isdigit()
    ]
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    wanted = [entry.strip() for entry in visible.split(",")]
    return [gpu for gpu in found if gpu.index in wanted]


def _from_smi(environ: Mapping[str, str]) -> list[Gpu]:
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, "--query-gpu=index,name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_SMI_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    rows = [line.partition(",") for line in done.stdout.splitlines() if line.strip()]
    return [Gpu(index.strip(), product.strip()) for index, _, product in rows if index.strip().isdigit()]


def _cpu_quota(directory: Path) -> int | None:
    """Milli-CPU that a cgroup (v2, then v1) may use; None if it is not limited."""
    quota, _, period = _read(directory / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(directory / "cpu.cfs_quota_us"), _read(directory / "cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit() and int(period):
        return max(1, int(quota) * 1000 // int(period))
    return None


def _cgroups(root: Path, controller: str) -> list[Path]:
    """The directories of this process's cgroup and of all its ancestors, under v2 and v1."""
    result = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            base = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            base = root / "sys/fs/cgroup" / controller
        else:
            continue
        leaf = base / path.lstrip("/")
        result += [each for each in (leaf, *leaf.parents) if each == base or base in each.parents]
        result.append(base)
    return result


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

"""A large cluster at rest, and one in which much happens: what it costs the scheduler to keep its mirror.

The API server is a recorded one (`recorded.py`).
"""

import time
from pathlib import Path
from typing import Final

from bench.kubernetes.contenders import scheduling
from bench.kubernetes.measure import processor_time
from bench.kubernetes.recorded import serving
from bench.kubernetes.rows import Row, gangs
from muster.names import NAMESPACE, SCHEDULER

#: The pods that run, in gangs of 20.
ROW: Final = Row("100,000 pods on 5,000 nodes", 5_000, 20, nodes=5_000)
#: Changes per second, and for how many seconds.
RATE: Final = 5_000
SECONDS: Final = 10.0


def measure(home: Path, scale: float) -> dict[str, float]:
    row = ROW.scaled(scale)
    with serving(home, row) as server:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "muster-scheduler"},
            "spec": {"holderIdentity": "", "leaseTransitions": 1, "leaseDurationSeconds": 15},
        }
        server.create(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", lease)
        ((path, pod),) = gangs(Row("new", 1, 1), SCHEDULER, None)
        pod["metadata"]["name"] = "new"
        server.create(path, pod)
        began = time.monotonic()
        with scheduling(home, ["scheduler", f"--kubeconfig={server.kubeconfig}"]) as pid:
            started = server.bound("new") - began
            spent_on_start = processor_time(pid)
            _rest(pid)
            resident, peak = memory(pid)
            spent = processor_time(pid)
            reached = server.change(RATE, SECONDS)
            _rest(pid)
            spent = processor_time(pid) - spent
    return {
        f"mirror of {row.pods:,} pods ({server.pod_size} bytes each) and {row.nodes:,} nodes, MB": resident,
        "the same, at its peak, MB": peak,
        "start there → first bind, s": started,
        "start there → first bind, s of CPU": spent_on_start,
        f"{reached:,.0f} watch events/s there, % of a core": spent / SECONDS * 100,
    }


def _rest(pid: int) -> None:
    """Waits until the scheduler does nothing."""
    for _ in range(60):
        spent = processor_time(pid)
        time.sleep(1)
        if processor_time(pid) - spent < 0.1:
            return


def memory(pid: int) -> tuple[float, float]:
    """Resident memory of a process now, and the most that it has had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    now, most = (int(found[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
    return now, most

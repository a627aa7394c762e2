"""The embedded store without its HTTP API: writes by the registry, and deliveries to watchers in process."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry

PODS: Final = 10_000
WATCHERS: Final = 10


def run() -> dict[str, float]:
    """Figures per second, on a file; pods are about 2 KB."""
    with tempfile.TemporaryDirectory() as directory:
        registry = Registry(Store(Path(directory) / "store.db"))
        try:
            return asyncio.run(_measure(registry))
        finally:
            registry.store.close()


async def _measure(registry: Registry) -> dict[str, float]:
    figures = {"resident MB before": _resident()}
    started = time.perf_counter()
    for number in range(PODS):
        registry.create(kinds.POD, "default", pod(number))
    figures["creates/s"] = PODS / (time.perf_counter() - started)
    started = time.perf_counter()
    for number in range(PODS):
        patch = {"status": {"phase": "Running", "message": str(number)}}
        registry.patch(kinds.POD, "default", f"pod-{number}", patch, subresource="status")
    figures["status patches/s"] = PODS / (time.perf_counter() - started)
    started = time.perf_counter()
    listing = registry.list(kinds.POD)
    assert len(listing.items) == PODS
    figures["objects listed/s"] = PODS / (time.perf_counter() - started)
    figures["bytes per pod"] = sum(map(len, listing.items)) / PODS
    del listing
    figures["resident MB with 10,000 pods"] = _resident()
    figures["deliveries/s"] = await _deliver(registry)
    return figures


async def _deliver(registry: Registry) -> float:
    """All watchers read 2,000 new changes."""
    changes = 2_000
    revision = registry.store.revision
    for number in range(changes):
        patch = {"status": {"message": f"again {number}"}}
        registry.patch(kinds.POD, "default", f"pod-{number}", patch, subresource="status")

    async def read() -> None:
        seen = 0
        async for frames in registry.watch(kinds.POD, revision=revision):
            seen += sum(1 for frame in frames if frame.encode())
            if seen == changes:
                return

    started = time.perf_counter()
    await asyncio.gather(*(read() for _ in range(WATCHERS)))
    return WATCHERS * changes / (time.perf_counter() - started)


def pod(number: int) -> Object:
    return {
        "metadata": {
            "name": f"pod-{number}",
            "labels": {f"example.com/label-{i}": f"value-{i}" for i in range(8)},
            "annotations": {"example.com/note": "n" * 600},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/image:1",
                    "command": ["sleep", "60"],
                    "env": [{"name": f"VARIABLE_{i}", "value": "v" * 20} for i in range(8)],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1}},
                }
            ],
        },
    }


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name:30} {value:12,.0f}")

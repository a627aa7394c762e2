"""Whether a process keeps its objects once: what reflector, caches and mirror of 100,000 pods take.

`python -m bench.copies` prints, for the running pods of 5,000 PodGroups with all fields of a real server, by
how many megabytes the process grows with each step, and how many pods are one Python object in all places.
Without arguments the pods are those that the scheduler reads; with `whole`, those that controllers read.
"""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.kubernetes.recorded import _running
from bench.kubernetes.rows import Row, gangs
from muster.api.core_v1 import Pod
from muster.api.kinds import POD, POD_GROUP_X
from muster.api.scheduled_pod import SCHEDULED_POD
from muster.app.wiring.controllers import CONTROLLERS
from muster.controllers.caches import Cache, Index
from muster.kube.decode import decode
from muster.kube.informers import Informers
from muster.names import SCHEDULER
from muster.runtime.watched import WatchedMirror

ROW: Final = Row("held", 5_000, 20, 5_000)


def objects() -> Iterator[tuple[str, bytes]]:
    """The plural, and the object as an API server sends it, one after the other."""
    for number, (_, obj) in enumerate(gangs(ROW, SCHEDULER, POD_GROUP_X)):
        stamp = {"uid": f"00000000-0000-4000-8000-{number:012}", "resourceVersion": str(number + 1)}
        obj["metadata"] |= {"namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", **stamp}
        if obj["kind"] == POD.kind:
            obj = _running(obj, f"node-{number % ROW.nodes:04}")
        yield obj["kind"], msgspec.json.encode(obj)


def resident() -> float:
    """MB"""
    gc.collect()
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    view = POD if "whole" in sys.argv[1:] else SCHEDULED_POD
    client: Any = None  # Any: nothing is asked
    informers = Informers(client)
    before = resident()

    def grown(what: str) -> None:
        nonlocal before
        now = resident()
        print(f"{what}: {now - before:.0f} MB")
        before = now

    for kind, raw in objects():
        of: Any = POD_GROUP_X if kind == POD_GROUP_X.kind else POD  # Any: of one kind or the other
        one = decode(view if of is POD else of, raw)
        informers[of]._change(one.key, one)
    grown("reflector")
    site: Any = None  # Any: the controllers of pods ask it for nothing
    made = [one for name, each in CONTROLLERS.items() if name != "batchjob" for one in each(site)]
    indexes: dict[int, Index] = {id(i): i for each in made for i in each.indexes if i.kind is POD}
    cache = Cache[Pod](POD, indexes.values())
    informers[POD].subscribe(cache.change)
    grown("caches of the controllers")
    mirror = WatchedMirror(informers, frozenset({SCHEDULER}))
    grown("world of the mirror")
    mirror.drain(0.0)
    grown("groups read")
    held = informers[POD].items
    world = {"/".join(name): pod for name, pod in mirror.world.pods.items()}
    same = sum(cache.items[key] is pod is world[key] for key, pod in held.items())
    print(f"{same} of {len(held)} pods are one object in all three")


if __name__ == "__main__":
    main()

"""The openb trace of Alibaba's GPU cluster: a list of nodes and a list of pods, both CSV.

    sn,cpu_milli,memory_mib,gpu,model
    name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time

Weng et al., "Beware of Fragmentation", ATC'23. Model, as in their experiment: pods arrive one by one, in an
order that the seed draws, and never leave; one that does not fit when it comes is dropped. A pod asks for
whole GPUs (`num_gpu` of 1000 `gpu_milli`) or for a share of one; `gpu_spec` names the models that will do,
with bars between them. Some lists (`multigpu*`) end before that column: any model will do. Times, priorities
and phases of the trace play no part, nor need they be there.

The order of nodes is drawn, too, by a number in front of each name. The list has nodes of one model next to
each other, and orders that know many ties would fill the first models first; the original experiment
renames them so (`syncClusterResourceList` in its simulator.go).

With a load, arrivals are *tuned* to ask for so much of all GPUs together: pods drawn from the trace are
appended until the next would ask for more, or the last ones left out. Rows take 50 bytes each in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from muster.api.quantity import most
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Amounts, GangId, NodeName, NodeTerm, Operator, PodSet, Requirement, Shape
from muster.core.world.devices import WHOLE
from muster.names import GPU, GPU_PRODUCT, GPU_SHARE
from muster.sim.readers import table
from muster.sim.readers.lines import first, shown
from muster.sim.trace import Clock, Job, Tally, Trace, TraceError

NODES: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
PODS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
#: The columns of every list of pods; the others may be missing.
_ALWAYS: Final = PODS[:5]
#: The list of nodes that belongs to a list of pods beside it.
NODE_LIST: Final = "openb_node_list_gpu_node.csv"
#: The largest amounts of one node or pod.
_MOST: Final = 2**31 - 1
_MIB: Final = 2**20
_MOST_MIB: Final = most("memory") // _MIB
_MOST_GPUS: Final = 1024


class Pod(NamedTuple):
    """Its shape, and the thousandths of GPUs that it asks for."""

    name: str
    shape: Shape
    size: int


class Openb(Trace):
    """The pods as they are listed; `drawn` gives the arrivals that a seed makes of them."""

    resource = GPU
    draws = True
    tunes = True
    clock = Clock.ARRIVALS

    def __init__(
        self,
        paths: Sequence[Path],
        nodes: Sequence[NodeChanged] = (),
        skip_bad: bool = False,
    ) -> None:
        """`paths`: the list of pods, and the list of nodes unless `nodes` are given or it lies beside.

        Raises TraceError.
        """
        by_header = {tuple(first(path).split(",")): path for path in paths}
        pods = [header for header in by_header if _of_pods(header)]
        if len(pods) != 1 or len(by_header) < len(paths) or not by_header.keys() <= {*pods, NODES}:
            names = ", ".join(map(str, paths))
            raise TraceError(f"{names}: expected one list of pods ({','.join(_ALWAYS)},…), and one of nodes")
        self._header = pods[0]
        self._path, self._left_out = by_header[self._header], Tally()  # of the list of nodes
        listed = by_header.get(NODES, self._path.with_name(NODE_LIST))
        self.nodes = nodes or _nodes(listed, self._path, self._left_out, skip_bad)
        self._capacity = WHOLE * sum(dict(node.capacity).get(GPU, 0) for node in self.nodes)
        if not self._capacity:
            raise TraceError(f"{self._path}: the nodes have no {GPU}; expected some to share")
        self._skip_bad = skip_bad
        self._generator: np.random.Generator | None = None
        self._load: float | None = None

    def drawn(self, seed: int, load: float | None) -> "Openb":
        """To be read once: what is drawn is drawn as it is read."""
        trace = copy(self)
        trace._generator, trace._load = np.random.default_rng(seed), load
        width = len(str(len(self.nodes)))
        order = trace._generator.permutation(len(self.nodes)).tolist()
        trace.nodes = [
            replace(node, name=NodeName(f"{place:0{width}}-{node.name}"))
            for place, node in zip(order, self.nodes, strict=True)
        ]
        return trace

    def jobs(self, tally: Tally) -> Iterator[Job]:
        """One a second, of which none ever ends."""
        tally.bad += self._left_out.bad
        tally.first_bad = tally.first_bad or self._left_out.first_bad
        rows = table.read(self._path, self._header, _reading(), tally, self._skip_bad)
        pods = rows if self._generator is None else self._arrivals(rows, self._generator)
        for second, pod in enumerate(pods):
            sets = _pod_sets(pod.shape)
            yield Job(GangId(f"openb/{second:06}"), second, inf, inf, sets, pod.size, waits=False)

    def _arrivals(self, listed: Iterable[Pod], generator: np.random.Generator) -> Iterator[Pod]:
        """In an order that is drawn, and as many as the load asks for."""
        rows = sorted(listed, key=lambda row: row.name)
        shuffled = [rows[i] for i in generator.permutation(len(rows)).tolist()]
        if self._load is None or not rows:
            yield from shuffled
            return
        more = (rows[i] for i in iter(lambda: int(generator.integers(len(rows))), None))
        left = self._load * self._capacity
        for pod in chain(shuffled, more if any(row.size for row in rows) else ()):
            left -= pod.size
            if left < 0:
                return
            yield pod


def begins(text: str) -> bool:
    """Whether this is the header of one of the two lists."""
    header = tuple(text.split(","))
    return header == NODES or _of_pods(header)


def _of_pods(header: tuple[str, ...]) -> bool:
    return header == (*_ALWAYS, *(name for name in PODS[len(_ALWAYS) :] if name in header))


def _nodes(path: Path, beside: Path, tally: Tally, skip_bad: bool) -> list[NodeChanged]:
    if not path.exists():
        raise TraceError(
            f"{beside}: there is no {NODE_LIST} beside it; name the list of nodes as well, or give nodes: "
            f'--nodes "8 x cpu=96,memory=768Gi,{GPU}=8"'
        )
    names: set[str] = set()

    def node(row: table.Row) -> NodeChanged:
        name = row.text("sn")
        if name in names:
            raise TraceError(f"{row.place('sn')}: there is a node {shown(name)} already")
        capacity = {
            "cpu": row.whole("cpu_milli", _MOST),
            "memory": row.whole("memory_mib", _MOST_MIB) * _MIB,
            GPU: row.whole("gpu", _MOST_GPUS),
        }
        model = row.optional("model")  # nodes without GPUs have none
        labels = ((GPU_PRODUCT, model),) if model else ()
        names.add(name)
        return NodeChanged(NodeName(name), _amounts(capacity), labels)

    return list(table.read(path, NODES, node, tally, skip_bad))


def _reading() -> Callable[[table.Row], Pod]:
    """How the rows of a list are read: each pod has a name of its own."""
    names: set[str] = set()

    def pod(row: table.Row) -> Pod:
        found = _row(row)
        if found.name in names:
            raise TraceError(f"{row.place('name')}: there is a pod {shown(found.name)} already")
        names.add(found.name)
        return found

    return pod


def _row(row: table.Row) -> Pod:
    count, thousandths = row.whole("num_gpu", _MOST_GPUS), row.whole("gpu_milli", WHOLE)
    if count > 1 and thousandths != WHOLE:
        raise row.error("gpu_milli", f"expected {WHOLE}, as it asks for {count} GPUs")
    if bool(count) != bool(thousandths):
        raise row.error("gpu_milli", "expected 1 to 1000 with a GPU, 0 without")
    share = thousandths if thousandths < WHOLE else 0
    requests = {
        "cpu": row.whole("cpu_milli", _MOST),
        "memory": row.whole("memory_mib", _MOST_MIB) * _MIB,
        GPU: 0 if share else count,
        GPU_SHARE: share,
    }
    models = tuple(sorted({model for model in row.optional("gpu_spec").split("|") if model}))
    return Pod(row.text("name"), _shape(_amounts(requests), models), count * thousandths)


def _amounts(by_name: dict[str, int]) -> Amounts:
    return tuple(sorted((resource, amount) for resource, amount in by_name.items() if amount))


@cache
def _shape(requests: Amounts, models: tuple[str, ...]) -> Shape:
    """Bounded by the distinct pods. One object per kind, as the core likes it."""
    if not models:
        return Shape(requests)
    return Shape(requests, affinity=(NodeTerm((Requirement(GPU_PRODUCT, Operator.IN, models),)),))


@cache
def _pod_sets(shape: Shape) -> tuple[PodSet, ...]:
    return (PodSet("main", shape, 1, 1),)

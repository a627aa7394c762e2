"""`muster nodes`: shows the nodes, their capacity and their usage."""

from collections.abc import Mapping, Sequence
from typing import Final

from muster.cli.options import Context, Kubeconfig, Output, OutputFormat
from muster.cli.say import say

_STORAGE: Final = "ephemeral-storage"


def command(
    output: OutputFormat = Output.TABLE, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    import asyncio
    import time

    from muster.api.quantity import about as quantity
    from muster.app.views import nodes
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show
    from muster.names import GPU

    target = Target(kubeconfig, context)

    async def fetch() -> list[nodes.NodeView]:
        async with reading(target) as client:
            return await nodes.fetch(client, target.schedulers, time.time())

    def used(node: nodes.NodeView, name: str) -> str:
        if name == GPU:
            return nodes.quantities(node.used).get(GPU, "0")
        return quantity(name, node.used.get(name, 0))

    found = asyncio.run(fetch())
    if output is not Output.TABLE:
        show.machine([nodes.summary(node) for node in found], output)
        return
    if not found:
        idle = ": the embedded cluster is not running; `muster up` starts it"
        say("no nodes" + (idle if target.embedded else ""))
        return
    resources = columns([(node.capacity, node.used) for node in found])
    tainted = any(node.taints for node in found)
    show.table(
        [
            *("NAME", "STATE"),
            *(f"{name.removeprefix('nvidia.com/')} used/all" for name in resources),
            "PRODUCT",
            *(["TAINTS"] if tainted else []),
        ],
        [
            [
                node.name,
                node.state,
                *(f"{used(node, name)}/{quantity(name, node.capacity.get(name, 0))}" for name in resources),
                node.product,
                *([", ".join(node.taints)] if tainted else []),
            ]
            for node in found
        ],
    )
    for node in found:
        if node.note:
            say(node.note)


def columns(found: Sequence[tuple[Mapping[str, int], Mapping[str, int]]]) -> list[str]:
    """The resources worth a column, of nodes' (capacity, usage).

    Every node has ephemeral storage; few pods request it.
    """
    named = {resource for capacity, _ in found for resource in capacity}
    if not any(used.get(_STORAGE) for _, used in found):
        named.discard(_STORAGE)
    return sorted(named, key=_interest)


def _interest(resource: str) -> tuple[int, str]:
    """Sort key of a resource: CPU and memory first, then what machines are bought for."""
    order = {"cpu": 0, "memory": 1, "pods": 3, _STORAGE: 4}
    return order.get(resource, 2), resource

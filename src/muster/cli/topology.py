"""`muster topology`: shows the domains of the network topology, and their free resources."""

from typing import TYPE_CHECKING

from muster.cli.options import Context, Kubeconfig, Output, OutputFormat
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.views.topology import DomainView, TopologyView


def command(
    output: OutputFormat = Output.TABLE, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    import asyncio

    from muster.api.quantity import about as quantity
    from muster.app.views import topology
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show

    async def fetch() -> topology.TopologyView:
        async with reading(Target(kubeconfig, context)) as client:
            return await topology.fetch(client)

    found = asyncio.run(fetch())
    if output is not Output.TABLE:
        show.machine(topology.summary(found), output)
        return
    if said := _instead(found):
        say(said)
    if not found.domains:
        return
    resources = _devices(found)
    show.table(
        ["DOMAIN", "NODES", "READY", *(f"{name.rpartition('/')[2]} free/all" for name in resources)],
        [
            [
                _title(domain),
                str(len(domain.nodes)),
                str(domain.ready),
                *(
                    f"{quantity(r, domain.free.get(r, 0))}/{quantity(r, domain.capacity.get(r, 0))}"
                    for r in resources
                ),
            ]
            for domain in found.domains
        ],
        right=("NODES", "READY"),
    )


def _instead(found: "TopologyView") -> str:
    """The message before the table, if the table alone would not explain enough."""
    if found.error:
        return f"the ClusterNetworkTopology default cannot be used: {found.error}"
    if not found.defined:
        return "there is no ClusterNetworkTopology named default: all nodes are one domain"
    return "" if found.domains else "no nodes: the embedded cluster is not running; `muster up` starts it"


def _devices(found: "TopologyView") -> list[str]:
    """Resources that machines are bought for; CPUs if there are none."""
    every = sorted({resource for domain in found.domains for resource in domain.capacity})
    return [resource for resource in every if "/" in resource] or ["cpu"]


def _title(domain: "DomainView") -> str:
    if not domain.path:
        return "cluster"
    name = f"{domain.layer} {domain.path[-1]}" if domain.labelled else f"without {domain.layer}"
    return f"{'  ' * len(domain.path)}{name}"

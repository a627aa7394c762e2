"""What preemption may cost on a cluster: its PriorityClasses, and its prices."""

from collections.abc import Sequence
from contextlib import suppress

from muster.api import kinds
from muster.api.base import Object
from muster.api.rates import KEY, Rates, read
from muster.app.plan.risk import risks
from muster.app.views.observe import observe
from muster.kube.client import Client
from muster.kube.errors import Forbidden, NotFound
from muster.translate.risk import Risk


async def of_cluster(client: Client, jobs: Sequence[Object]) -> list[Risk]:
    """The risks of jobs on this cluster, from those PriorityClasses, queues and prices that may be read."""
    try:
        known = await observe(client, (kinds.PRIORITY_CLASS,))
    except Forbidden:
        return []
    with suppress(Forbidden):
        queues = await observe(client, (kinds.QUEUE,))
        known.items.update(queues.items)
        if queues.items:
            known.items.update((await observe(client, (kinds.NODE,))).items)
    return risks(jobs, known, await prices(client))


async def prices(client: Client) -> Rates:
    """The prices of the cluster; none if there are none, or they may not be read."""
    try:
        return read(await client.get(kinds.CONFIG_MAP, *KEY.split("/")))
    except (NotFound, Forbidden):
        return Rates()

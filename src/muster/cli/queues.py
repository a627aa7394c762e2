"""`muster queues`: shows the tree of queues, with usage and entitlement of each."""

from typing import TYPE_CHECKING

from muster.cli.options import Context, Kubeconfig, Output, OutputFormat

if TYPE_CHECKING:
    from muster.app.views.queues import QueueView


def command(
    output: OutputFormat = Output.TABLE, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    import asyncio

    from muster.app.views import queues
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show

    target = Target(kubeconfig, context)

    async def fetch() -> list[queues.QueueView]:
        async with reading(target) as client:
            return await queues.fetch(client, target.schedulers)

    found = asyncio.run(fetch())
    if output is not Output.TABLE:
        show.machine([queues.summary(view) for view in found], output)
        return
    resources = queues.resources(found)
    show.table(
        [
            "QUEUE",
            "WEIGHT",
            *(f"{_short(name)} used/entitled" for name in resources),
            "GUARANTEE",
            "BORROWED",
            "WAITING",
            "STANDING",
            "",
        ],
        [_row(view, resources) for view in found],
    )


def _row(view: "QueueView", resources: list[str]) -> list[str]:
    from muster.api.quantity import about

    used, entitled = view.status["used"], view.status["entitled"]
    kept = {resource: about(resource, amount) for resource, amount in view.account.rules.guarantee}
    return [
        "  " * view.depth + view.name,
        str(view.account.rules.weight),
        *(
            f"{_about(name, used.get(name, '0'))}/{_about(name, entitled.get(name, '0'))}"
            for name in resources
        ),
        _amounts(kept),
        _amounts({name: _about(name, amount) for name, amount in view.status["borrowed"].items()}),
        str(view.status["waiting"]),
        str(view.status["standing"]),
        ", ".join(view.notes),
    ]


def _about(resource: str, quantity: str) -> str:
    """A quantity of a queue's status, shortened for a table."""
    from muster.api.quantity import about, in_bytes, request

    return about(resource, request(resource, quantity)) if in_bytes(resource) else quantity


def _amounts(quantities: dict[str, str]) -> str:
    shown = (f"{quantity} {_short(name)}" for name, quantity in quantities.items() if name != "pods")
    return ", ".join(shown) or "-"


def _short(resource: str) -> str:
    return resource.removeprefix("nvidia.com/")

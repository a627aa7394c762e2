"""Shell completion of job names, besides that of verbs and options."""

from contextlib import suppress
from typing import Final

import typer

#: seconds that a shell waits at most
PATIENCE: Final = 2.0


def job_names(context: typer.Context, incomplete: str) -> list[str]:
    """The cluster's current jobs whose names begin with `incomplete`.

    Empty if the cluster cannot be read: a completion cannot show an error.
    """
    import asyncio

    from muster.app.views import jobs, objects
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target, reading

    async def views() -> list[JobView]:
        given = context.params
        target = Target(given.get("kubeconfig"), given.get("context"), given.get("namespace"))
        async with asyncio.timeout(PATIENCE), reading(target) as client:
            return jobs.views(await objects.fetch(client, target.scope))

    with suppress(Exception):
        return [view.name for view in asyncio.run(views()) if view.name.startswith(incomplete)]
    return []

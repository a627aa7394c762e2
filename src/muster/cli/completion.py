"""What a shell completes besides verbs and options: the names of jobs."""

from contextlib import suppress
from typing import Final

import typer

#: seconds for which a shell waits at most
PATIENCE: Final = 2.0


def job_names(context: typer.Context, incomplete: str) -> list[str]:
    """The jobs that the cluster of the command line has now, and whose names begin so.

    None if the cluster cannot be read: a completion has no place for an error.
    """
    import asyncio

    from muster.app import jobs
    from muster.app.cluster import Target, reading

    async def views() -> list[jobs.JobView]:
        given = context.params
        target = Target(given.get("kubeconfig"), given.get("context"), given.get("namespace"))
        async with asyncio.timeout(PATIENCE), reading(target) as client:
            return jobs.views(await jobs.fetch(client, target.scope))

    with suppress(Exception):
        return [view.name for view in asyncio.run(views()) if view.name.startswith(incomplete)]
    return []

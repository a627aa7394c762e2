"""`muster down`: stops the embedded cluster; unfinished jobs continue at the next start."""

from typing import Final

from muster.cli.say import say

#: Jobs that a line names at most.
_NAMED: Final = 5


def command() -> None:
    import asyncio

    from muster.app.wiring import host
    from muster.app.wiring.state_directory import StateDirectory

    home = StateDirectory.of_user()
    interrupted, lost = asyncio.run(_running()) if home.hosted() else ([], [])
    pid = host.stop(home)
    say("the embedded cluster was not running" if pid is None else f"stopped (pid {pid})")
    if interrupted:
        say(f"interrupted {_names(interrupted)}; `muster up` continues what has not finished")
    if lost:
        say(f"ended {_names(lost)} for good: nothing would create its pods again")


async def _running() -> tuple[list[str], list[str]]:
    """The jobs that have pods on the cluster: those that continue later, and those that do not."""
    from muster.api.base import controller_of
    from muster.app.views import jobs, objects
    from muster.app.wiring.cluster import Target, reading

    async with reading(Target()) as client:
        views = jobs.views(await objects.fetch(client))
    found: tuple[list[str], list[str]] = [], []
    for view in views:
        pods = [pod for pod in view.pods if pod.spec.node_name and not pod.terminal]
        if pods:
            found[any(controller_of(pod) is None for pod in pods)].append(view.name)
    return found


def _names(jobs: list[str]) -> str:
    more = f" and {len(jobs) - _NAMED:,} more" if len(jobs) > _NAMED else ""
    return ", ".join(jobs[-_NAMED:]) + more

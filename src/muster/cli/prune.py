"""`muster prune`: removes finished jobs, their output and their directories from this machine's disk."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.errors import BAD_INPUT, UNREACHABLE, Failure
from muster.cli.options import Context, Kubeconfig
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.commands.prune import Pruned
    from muster.app.wiring.state_directory import StateDirectory

OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than", metavar="7d", help="Only jobs that ended this long ago, without a question."
    ),
]
Every = Annotated[bool, typer.Option("--all", help="All finished jobs, without a question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")]


def command(
    older_than: OlderThan = None,
    every: Every = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio
    import time

    from muster.api import duration
    from muster.app.commands import prune
    from muster.app.views import objects
    from muster.app.wiring.cluster import Target, acting, attached, full_disk, reading
    from muster.app.wiring.host import HostError
    from muster.app.wiring.state_directory import StateDirectory
    from muster.cli import asking
    from muster.kube.errors import ApiError

    target = Target(kubeconfig, context)
    if not target.embedded:
        told = "prune is for the embedded cluster; elsewhere ttlSecondsAfterFinished removes finished Jobs"
        raise Failure(told, BAD_INPUT)
    try:
        age = duration.parse(older_than) if older_than is not None else 0
    except ValueError as error:
        raise Failure(f"--older-than: {error}", BAD_INPUT) from error
    home = StateDirectory.of_user()

    async def look() -> prune.Pruned:
        async with reading(target) as client:
            return prune.found(home, await objects.fetch(client), age, time.time())

    async def free() -> prune.Pruned:
        async with reading(target) as client:
            return await prune.remove(client, home, what, age, time.time(), directories_only=True)

    async def act() -> prune.Pruned:
        async with acting(target, endpoint) as client:
            return await prune.remove(client, home, what, age, time.time())

    what = asyncio.run(look())
    if not what or dry_run:
        say(f"{_told(what)} can be removed" if what else "nothing to remove", prose=True)
        _tell_what_is_left(home)
        return
    if not (every or older_than):
        if not asking.possible():
            raise Failure(f"{_told(what)} can be removed; write --all, or --older-than 7d", BAD_INPUT)
        if not asking.agreed(f"{_told(what)}. Are they to be removed?"):
            return
    freed = asyncio.run(free()) if full_disk(target) else None
    try:
        with attached(target) as endpoint:
            removed = asyncio.run(act())
    except (HostError, ApiError) as error:
        if freed is None:
            raise
        did = f"freed {_size(freed.bytes)}, but the finished jobs could not be removed"
        raise Failure(f"{did}: {error}", UNREACHABLE) from error
    if freed is not None:
        removed = removed.after(freed)
    say(f"removed {_told(removed)}" if removed else "nothing to remove any more", prose=True)
    _tell_what_is_left(home)


def _told(what: "Pruned") -> str:
    from muster.cli.show import plural

    told = [
        plural(len(what.jobs), "finished job") if what.jobs else "",
        f"the output of {plural(len(what.output), 'pod')}" if what.output else "",
        plural(len(what.directories), "directory").replace("directorys", "directories")
        if what.directories
        else "",
    ]
    return f"{', '.join(filter(None, told))}: {_size(what.bytes)}"


def _tell_what_is_left(home: "StateDirectory") -> None:
    from muster.embedded.node.logs import TOTAL_BYTES, TOTAL_SECONDS, Logs

    output = sum(each.bytes for each in Logs(home.logs).of_others(frozenset()))
    kept = f"{_size(TOTAL_BYTES)} and {TOTAL_SECONDS / 86_400:.0f} days of ended pods at most"
    state = sum(path.stat().st_size for path in home.root.glob("*") if path.is_file())
    say(f"left: {_size(output)} of output ({kept}), {_size(state)} of state in {home.root}", prose=True)


def _size(count: int) -> str:
    """Bytes as people read them: `340 MiB`."""
    amount, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if amount >= 10 or unit == "bytes" else f"{amount:.1f} {unit}"

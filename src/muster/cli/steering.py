"""Finds existing jobs and changes them through a running cluster: shared by the commands that do so."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from muster.app.views import find
from muster.app.views.find import Matches, Meant, meant
from muster.app.views.job import JobView
from muster.app.wiring.cluster import Target, acting, attached, reading
from muster.cli import asking, show
from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.say import say
from muster.kube.client import Client

T = TypeVar("T")


def steer(
    target: Target,
    names: Sequence[str | None],
    act: Callable[[Client, JobView], Awaitable[T]],
    choose: Callable[[Sequence[Matches[JobView]]], list[Meant]] | None = None,
) -> list[tuple[JobView, T]]:
    """Each job before the change, and the result of `act`, in the order of the names.

    All names are looked up before anything is changed. A name stands for the newest job that it matches
    (None: of all), unless `choose` says otherwise.
    """

    async def look() -> list[Meant]:
        async with reading(target) as client:
            found = await find.all_matching(client, names, target.scope, runs=True)
        return choose(found) if choose is not None else [meant(each) for each in found]

    async def change() -> list[tuple[JobView, T]]:
        async with acting(target, endpoint) as client:
            there = {view.which: view for view in await find.again(client, [each.view for each in wanted])}
            views = [there.get(each.view.which, each.view) for each in wanted]
            return [(view, await act(client, view)) for view in views]

    wanted = asyncio.run(look())  # looked up first, so that no cluster is started needlessly
    show.meant(wanted)
    with attached(target) as endpoint:
        return asyncio.run(change())


def to_end(found: Sequence[Matches[JobView]], what: str, *, every: bool) -> list[JobView]:
    """The jobs that are ended because these names were given, each once: unfinished ones, if there are any.

    A name that is one job's, in full or as its file is known to give it, is enough. For a mere prefix, and
    for several jobs, the user is asked, unless `every` job that matches is meant. `what`: what is done, such
    as "cancelled". Raises Failure if the user cannot be asked.
    """
    from muster.app.commands.cancel import is_run_of

    views: dict[tuple[str, str, str, str], JobView] = {}
    for matches in found:
        going = [view for view in matches.found if not view.state.finished] or [*matches.found]
        name = matches.name or ""
        if not every and (len(going) > 1 or not matches.named or not is_run_of(name, going[0])):
            going = _asked(name, going, what)
        views |= {view.which: view for view in going}
    return [*views.values()]


def _asked(name: str, going: Sequence[JobView], what: str) -> list[JobView]:
    told = find.listed(going, lambda view: f"{view.state.value} for {show.age(view.created)}")
    if len(going) == 1:
        told, instead = f"{name} is the beginning of {told}", "Name it in full"
    else:
        told, instead = f"{len(going):,} jobs match {name}: {told}", "Name one of them in full"
    if not asking.possible():
        raise Failure(f"{told}. {instead}, or write --all", BAD_INPUT)
    newest = "Is it" if len(going) == 1 else f"Is the newest, {find.called(going[-1], going)},"
    if asking.agreed(f"{told}. {newest} to be {what}?"):
        return [going[-1]]
    say(f"{name}: nothing is {what}", err=True)
    return []

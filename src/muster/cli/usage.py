"""`muster usage`: adds up what jobs have used and waited for, and what preemptions have cost them."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Kubeconfig, Namespace, Output, OutputFormat
from muster.cli.say import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.api.rates import Rates
    from muster.app.views.usage import Usage

By = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="WHAT",
        help="Add up by some of week, queue, namespace, user, job, with commas; the first three by default.",
    ),
]


def command(
    by: By = None,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio
    import time

    from muster.app.records.accounting import account
    from muster.app.views import usage
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show

    chosen = _by(by)
    target = Target(kubeconfig, context, namespace)

    async def fetch() -> "tuple[list[Usage], Rates]":
        async with reading(target) as client:
            found = await account(client, target, time.time())
            records = await usage.fetch(client, target.scope)
            return usage.added_up(records, found.uses, found.waits, found.rates, chosen), found.rates

    found, rates = asyncio.run(fetch())
    if output is not Output.TABLE:
        show.machine([usage.summary(each, rates, chosen) for each in found], output)
    elif found:
        table(found, chosen, rates)
    else:
        say("nothing has been used, and nothing was preempted in the last 26 weeks")
    if not target.embedded:
        say("note: a cluster remembers preemptions, but only the use of pods that still exist", err=True)


def _by(text: str | None) -> "Sequence[str]":
    from muster.app.views.usage import BY, USUAL

    if text is None:
        return USUAL
    asked = [each.strip() for each in text.split(",")]
    unknown = [each for each in asked if each not in BY]
    if unknown:
        raise Failure(f"--by {unknown[0]}: write some of {', '.join(BY)}, with commas", BAD_INPUT)
    return [each for each in BY if each in asked]


def table(found: "Sequence[Usage]", by: "Sequence[str]", rates: "Rates") -> None:
    """Prints the account. Columns about money and preemptions are left out if there is none."""
    from muster.api.rates import money
    from muster.app.views import usage
    from muster.cli import show
    from muster.cli.bars import clock

    columns: list[tuple[str, list[str]]] = [
        *((name.upper(), [getattr(each, name) or "-" for each in found]) for name in by),
        ("JOBS", [f"{len(each.jobs):,}" for each in found]),
        ("GPU-HOURS", [usage.hours(each.used_gpu_hours) for each in found]),
        ("CPU-HOURS", [usage.hours(each.used_cpu_hours) for each in found]),
        ("WAITED", [clock(each.waited) for each in found]),
    ]
    if rates.prices:
        costs = [usage.priced(each, rates) for each in found]
        columns.append(("COST", [money(cost) if cost is not None else "-" for cost in costs]))
    if any(each.preemptions for each in found):
        lost = [money(each.cost) if each.unpriced < each.preemptions else "-" for each in found]
        unpriced = [f"{each.unpriced} without a rate" if each.unpriced else "" for each in found]
        columns += [
            ("PREEMPTIONS", [str(each.preemptions) for each in found]),
            ("GPU-HOURS LOST", [str(each.gpu_hours) for each in found]),
            ("COST LOST", lost),
            ("", unpriced),
        ]
    names = [name for name, _ in columns]
    rows = [list(row) for row in zip(*(cells for _, cells in columns), strict=True)]
    show.table(names, rows, right=[name for name in names[len(by) :] if name])

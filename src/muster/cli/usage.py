"""`muster usage`: shows what preemptions have cost, per week, queue and namespace."""

from muster.cli.options import Context, Kubeconfig, Namespace, Output, OutputFormat
from muster.cli.say import say


def command(
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.api.rates import money
    from muster.app.views import usage
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show

    target = Target(kubeconfig, context, namespace)

    async def fetch() -> list[usage.Usage]:
        async with reading(target) as client:
            return await usage.fetch(client, namespace or "")

    found = asyncio.run(fetch())
    if output is not Output.TABLE:
        show.machine([usage.summary(each) for each in found], output)
        return
    if not found:
        say("no preemptions in the last 26 weeks")
        return
    rows = [
        [
            each.week,
            each.queue,
            each.namespace,
            str(each.preemptions),
            str(each.gpu_hours),
            money(each.cost) if each.unpriced < each.preemptions else "-",
            f"{each.unpriced} without a rate" if each.unpriced else "",
        ]
        for each in found
    ]
    columns = ["WEEK", "QUEUE", "NAMESPACE", "PREEMPTIONS", "GPU-HOURS LOST", "COST LOST", ""]
    show.table(columns, rows, right=columns[3:6])

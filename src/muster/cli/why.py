"""`muster why JOB`: one reason, the blockers, the smallest change that starts it."""

from typing import Final

from muster.cli.options import Context, JobName, Kubeconfig, Namespace, Output, OutputFormat

#: seconds in which the scheduler has looked at a job that was just submitted, and between two questions
FIRST_LOOK: Final = 5.0
ASK: Final = 0.05


def command(
    job: JobName,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio
    import time

    from muster.app import jobs
    from muster.app.cluster import Target, hosted, reading
    from muster.cli import show

    target = Target(kubeconfig, context)

    async def fetch() -> jobs.JobView:
        deadline = time.monotonic() + FIRST_LOOK
        async with reading(target) as client:
            while True:
                among = jobs.views(await jobs.fetch(client, namespace or ""))
                view = jobs.find(job, among, newest=True)
                told = view.reason is not None or view.state is not jobs.State.WAITING
                if told or not hosted(target) or time.monotonic() > deadline:
                    return view
                await asyncio.sleep(ASK)

    view = asyncio.run(fetch())
    if output is not Output.TABLE:
        show.machine(
            {**jobs.summary(view), "gangs": [jobs.gang_summary(gang) for gang in view.gangs]}, output
        )
        return
    print(show.reason(view))
    for gang in view.gangs:
        for line in (*show.explanation(gang), *show.preemptions(gang.status.preemptions)):
            print(f"  {line}")
    if not (view.state.finished or view.managed_by or hosted(target)):
        print("  the embedded cluster is not running; `muster up` goes on with the job")

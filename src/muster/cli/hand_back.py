"""`muster hand-back`: the last step of uninstalling muster from a cluster."""

from typing import Annotated

import typer

from muster.cli.daemons import Kubeconfig
from muster.cli.options import Context
from muster.cli.say import say

#: Most names in a line.
SHOWN = 10


def command(
    lease: Annotated[
        str,
        typer.Option(
            "--lease", metavar="NAMESPACE/NAME", help="The Lease of the scheduler, which must have stopped."
        ),
    ] = "muster-system/muster-scheduler",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.commands.hand_back import HandedBack, hand_back
    from muster.cli.errors import BAD_INPUT, Failure
    from muster.kube import config
    from muster.kube.clock import SystemClock
    from muster.kube.http import HttpClient

    namespace, slash, name = lease.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise Failure(
            f"--lease: {lease!r} is not NAMESPACE/NAME, such as muster-system/muster-scheduler", BAD_INPUT
        )
    connection = config.load(kubeconfig, context)

    async def act() -> HandedBack:
        client = HttpClient(connection)
        try:
            return await hand_back(client, SystemClock(), (namespace, name))
        finally:
            await client.close()

    found = asyncio.run(act())
    say(f"handed back: {len(found.gangs)} gangs; their pods stay as they are")
    for gang, bound, least in found.partial:
        say(f"gang {gang} is bound in part: {bound} of {least} pods; delete or complete it")
    for kind, key in found.suspended:
        of, _, owner = key.partition("/")
        resume = f"""kubectl patch {kind} {owner} -n {of} --type merge -p '{{"spec":{{"suspend":false}}}}'"""
        say(f"{kind} {key} is suspended, as muster had not started it; to start it: {resume}")
    if jobs := found.batch_jobs:
        more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
        say(
            f"BatchJobs are kept: {', '.join(jobs[:SHOWN])}{more}; `kubectl delete crd batchjobs.muster.dev` "
            "would delete them, their pods and their volumes"
        )
    if found.preemptions:
        say(
            f"{len(found.preemptions)} Preemptions are kept, the history of `muster usage`; "
            "to save them before their definition is deleted: "
            "kubectl get preemptions -A -o yaml > preemptions.yaml"
        )

"""`muster up`: runs the embedded cluster, in this terminal or in the background."""

from typing import Annotated

import typer

from muster.cli.errors import BAD_INPUT, UNREACHABLE, Failure
from muster.cli.options import Nodes
from muster.cli.say import say

Detach = Annotated[bool, typer.Option("--detach", "-d", help="Run in the background until `muster down`.")]


def command(nodes: Nodes = "", detach: Detach = False) -> None:
    from muster.app.wiring import host
    from muster.app.wiring.cluster import nodes_asked
    from muster.app.wiring.state_directory import Endpoint, StateDirectory
    from muster.cli import show

    home = StateDirectory.of_user()
    home.make()
    host.let_go(home)
    running = home.endpoint()
    if running is not None:
        raise Failure(
            f"the embedded cluster is already running ({running.nodes or 'this machine'}, "
            f"pid {running.pid}); stop it first: muster down",
            BAD_INPUT,
        )

    def tell(said: object) -> None:
        if not isinstance(said, Endpoint):
            told = said if isinstance(said, dict) else {}
            raise Failure(told.get("error", "another command is starting it"), UNREACHABLE)
        show.started(said)
        say(f"the embedded cluster is at {said.server}")
        say(f"export KUBECONFIG={home.kubeconfig}", flush=True)

    asked = nodes_asked(nodes)
    if detach:
        tell(host.ensure(home, asked, stays=True))
    else:
        host.run(home, asked, True, tell)

"""`muster up`: the embedded cluster, in this terminal or behind it."""

from typing import Annotated

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Nodes

Detach = Annotated[bool, typer.Option("--detach", "-d", help="Go on in the background until `muster down`.")]


def command(nodes: Nodes = "", detach: Detach = False) -> None:
    from muster.app import host
    from muster.app.home import Endpoint, Home

    home = Home.of_user()
    home.make()
    running = home.endpoint()
    if running is not None:
        raise Failure(
            f"the embedded cluster runs already ({running.nodes or 'this machine'}, pid {running.pid}); "
            "stop it first: muster down",
            BAD_INPUT,
        )

    def tell(said: object) -> None:
        if not isinstance(said, Endpoint):
            raise Failure(
                said["error"] if isinstance(said, dict) and "error" in said else "somebody else hosts"
            )
        print(f"the embedded cluster is at {said.server}")
        print(f"export KUBECONFIG={home.kubeconfig}", flush=True)

    try:
        if detach:
            tell(host.ensure(home, nodes, stays=True))
        else:
            host.run(home, nodes, True, tell)
    except host.HostError as error:
        raise Failure(str(error)) from error

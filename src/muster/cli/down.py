"""`muster down`: stops the embedded cluster; unfinished jobs go on at the next start."""


def command() -> None:
    from muster.app import host
    from muster.app.home import Home
    from muster.cli.errors import Failure

    try:
        pid = host.stop(Home.of_user())
    except host.HostError as error:
        raise Failure(str(error)) from error
    print("the embedded cluster was not running" if pid is None else f"stopped (pid {pid})")

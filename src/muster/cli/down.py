"""`muster down`: stops the embedded cluster; unfinished jobs continue at the next start."""


def command() -> None:
    from muster.app import host
    from muster.app.home import Home

    pid = host.stop(Home.of_user())
    print("the embedded cluster was not running" if pid is None else f"stopped (pid {pid})")

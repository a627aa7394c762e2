"""`muster down`: stops the embedded cluster; unfinished jobs continue at the next start."""


def command() -> None:
    from muster.app.wiring import host
    from muster.app.wiring.state_directory import StateDirectory

    pid = host.stop(StateDirectory.of_user())
    print("the embedded cluster was not running" if pid is None else f"stopped (pid {pid})")

"""`muster down`: stops the embedded cluster; unfinished jobs continue at the next start."""

from muster.cli.say import say


def command() -> None:
    from muster.app.wiring import host
    from muster.app.wiring.state_directory import StateDirectory

    pid = host.stop(StateDirectory.of_user())
    say("the embedded cluster was not running" if pid is None else f"stopped (pid {pid})")

"""The console script `muster`, and `python -m muster`."""

import os

#: exit code of a command that Ctrl-C has ended, as `muster.cli.errors` has it
_INTERRUPTED = 130


def main() -> None:
    """Runs the command line, whose modules take a moment to load: Ctrl-C ends that quietly, too."""
    try:
        from muster.cli.main import main as run
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)
    run()


if __name__ == "__main__":
    main()

"""The console script `muster`, and `python -m muster`."""

import os

#: Exit code of a command that Ctrl-C has ended: `muster.cli.errors.INTERRUPTED`, which takes time to load.
_INTERRUPTED = 130


def main() -> None:
    """Runs the command line. Ctrl-C prints no traceback, not even while modules load or an error is told."""
    try:
        from muster.cli.main import main as run

        run()
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()

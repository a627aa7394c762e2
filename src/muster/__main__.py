"""The console scripts `muster` and `kubectl-muster`, and `python -m muster`."""

import os
import sys

#: Exit code of a command that Ctrl-C has ended: `muster.cli.errors.INTERRUPTED`, which takes time to load.
_INTERRUPTED = 130
#: Exit code of a command that cannot do what it is asked to: `muster.cli.errors.BAD_INPUT`.
_BAD_INPUT = 2


def main() -> None:
    """Runs the command line. Ctrl-C prints no traceback, not even while modules load or an error is told."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        sys.stderr.write(
            f"muster runs on Linux, not on {sys.platform}: use a container, a virtual machine or WSL 2\n"
        )
        sys.exit(_BAD_INPUT)
    try:
        from muster.cli.main import main as run

        run()
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)


def plugin() -> None:
    """Runs the command line as a plug-in of kubectl: on kubectl's cluster, if --kubeconfig names no other."""
    theirs = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    os.environ.setdefault("MUSTER_KUBECONFIG", theirs)
    sys.argv[0] = "kubectl muster"
    main()


if __name__ == "__main__":
    main()

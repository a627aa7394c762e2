"""Errors that end a verb: a message for the person who can act, and an exit code.

Verbs let them pass; `main` asks `failure` what to say. An error that is not known here is a mistake in
muster, and its traceback is what helps.
"""

from typing import Final

BAD_INPUT: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130
#: whoever read the output has gone; what a shell makes of a program that SIGPIPE ends
UNREAD: Final = 141


class Failure(Exception):
    """Printed as it is; no traceback."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def failure(error: Exception) -> Failure | None:
    """What to tell about an error of the rooms below; None if none of them raises it on purpose."""
    # imported here: when a verb has failed there is time
    from muster.app.cancel import StillThere
    from muster.app.host import HostError, OtherNodes
    from muster.app.jobs import UnknownJob
    from muster.app.steer import Refused
    from muster.kube.config import ConfigError
    from muster.kube.errors import AlreadyExists, ApiError, Invalid, Unanswered, Unreachable
    from muster.local.nodespec import InvalidNodes
    from muster.local.store import StoreError
    from muster.workloads.findings import JobFileError

    match error:
        case Failure():
            return error
        case StillThere():
            return Failure(str(error))
        case JobFileError() | InvalidNodes() | OtherNodes() | UnknownJob() | Refused():
            return Failure(str(error), BAD_INPUT)
        case HostError() | StoreError() | ConfigError():
            return Failure(str(error), UNREACHABLE)
        case Unreachable() | Unanswered():
            return Failure(f"the cluster cannot be reached: {error}", UNREACHABLE)
        case AlreadyExists():
            return Failure(f"{error.message}; `muster cancel` or `run --replace` removes it", BAD_INPUT)
        case ApiError():
            refused = f"the cluster refused: {error.message}"
            return Failure(refused, BAD_INPUT if isinstance(error, Invalid) else 1)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return Failure(f"{where}{error.strerror or error}")
        case _:
            return None

"""Errors that end a command: a message for the person who can act, and an exit code.

Commands let such errors pass; `main` asks `failure` for the message. An error that is not known here is a bug
in muster, and its traceback is what helps.
"""

from typing import Final

BAD_INPUT: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130
#: exit code when the reader of the output has closed it: what a shell reports for a program ended by SIGPIPE
UNREAD: Final = 141
#: Most characters of a server's message that are printed.
_LONGEST: Final = 2_000


class Failure(Exception):
    """An error that is printed as it is, without a traceback."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def failure(error: Exception) -> Failure | None:
    """The message for an error of a lower package; None if no package raises it on purpose."""
    # imported here, because a failed command has time
    from muster.app.commands.cancel import Replaced, StillThere
    from muster.app.commands.change import Refused
    from muster.app.commands.submit import Taken
    from muster.app.views.find import UnknownJob
    from muster.app.wiring.host import HostError, OtherNodes
    from muster.app.wiring.settings import InvalidSettings
    from muster.app.wiring.state_directory import NotPrivate
    from muster.embedded.nodespec import InvalidNodes
    from muster.embedded.storage.store import StoreError
    from muster.kube.config import ConfigError
    from muster.kube.errors import AlreadyExists, ApiError, Invalid, Unanswered, Unreachable
    from muster.workloads.findings import JobFileError

    match error:
        case Failure():
            return error
        case StillThere() | Replaced():
            return Failure(str(error))
        case JobFileError() | InvalidNodes() | InvalidSettings() | OtherNodes() | UnknownJob() | Refused():
            return Failure(str(error), BAD_INPUT)
        case Taken() | NotPrivate():
            return Failure(str(error), BAD_INPUT)
        case HostError() | StoreError() | ConfigError():
            return Failure(str(error), UNREACHABLE)
        case Unreachable() | Unanswered():
            return Failure(f"the cluster cannot be reached: {_short(str(error))}", UNREACHABLE)
        case AlreadyExists():
            return Failure(error.message, BAD_INPUT)
        case ApiError():
            refused = f"the cluster refused: {_short(error.message)}"
            return Failure(refused, BAD_INPUT if isinstance(error, Invalid) else 1)
        case OSError():
            where = error.filename or "the input or output failed"
            return Failure(f"{where}: {error.strerror or error}")
        case _:
            return None


def _short(told: str) -> str:
    """Returns the part of a server's message that is printed."""
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]} …"

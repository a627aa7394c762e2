"""Errors that end a verb with a message for the person who can act, and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

BAD_INPUT: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130


class Failure(Exception):
    """Printed as it is; no traceback."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def explained() -> Iterator[None]:
    """Turns what the lower rooms raise into `Failure`s."""
    from muster.kube.config import ConfigError
    from muster.kube.errors import ApiError, Unanswered, Unreachable

    try:
        yield
    except (Unreachable, Unanswered) as error:
        raise Failure(f"the cluster cannot be reached: {error}", UNREACHABLE) from error
    except ConfigError as error:
        raise Failure(str(error), UNREACHABLE) from error
    except ApiError as error:
        raise Failure(
            f"the cluster refused: {error.message}", BAD_INPUT if error.status == 422 else 1
        ) from error
    except LookupError as error:
        raise Failure(str(error.args[0] if error.args else error), BAD_INPUT) from error

"""The errors that an API server can return instead of an object. `reason` is Kubernetes' own word."""

from typing import Any, Final

from muster.api.base import Object


class ApiError(Exception):
    """The API server answered with a `Status` whose status is Failure."""

    status: int = 500
    reason: str = "InternalError"

    def __init__(
        self, message: str, *, details: Object | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        #: seconds to wait before a retry, as the server asks; None if it does not
        self.retry_after = retry_after

    def as_status(self) -> Object:
        """This error as a `Status` object."""
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status,
        }
        if self.details:
            body["details"] = self.details
        return body


class BadRequest(ApiError):
    status, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    status, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    status, reason = 403, "Forbidden"


class NotFound(ApiError):
    status, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    status, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    status, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    status, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """The object has changed since it was read, or a precondition failed."""

    status, reason = 409, "Conflict"


class Expired(ApiError):
    """The requested revision is not kept any more, or the server does not know it yet; list again."""

    status, reason = 410, "Expired"


class TooLarge(ApiError):
    status, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    status, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    status, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    status, reason = 429, "TooManyRequests"


class ServerError(ApiError):
    status, reason = 500, "InternalError"


class Unanswered(Exception):
    """The request was sent but not answered: whether it took effect is unknown."""


class Unreachable(Exception):
    """The server could not be reached: nothing was sent."""


_CLASSES: Final[list[type[ApiError]]] = [
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
]
_BY_REASON: Final = {cls.reason: cls for cls in _CLASSES}
_BY_STATUS: Final = {cls.status: cls for cls in reversed(_CLASSES)} | {409: Conflict}


#: What a server says of a revision that it has not reached within seconds; the reason is Timeout, as of much
#: else (`NewTooLargeResourceVersionError` in k8s.io/apiserver/pkg/storage).
AHEAD: Final = "Too large resource version"
#: The beginning of what a server says of a JSON patch of which an operation failed, such as a test (with 422:
#: `applyJSPatch` in k8s.io/apiserver/pkg/endpoints/handlers).
INAPPLICABLE: Final = "the server rejected our request due to an error in our request"
#: Most characters of a server's message that are kept. An admission webhook may put anything into it, and it
#: goes into logs, Events and the statuses of Gangs.
LONGEST: Final = 2_000


def from_status(body: dict[str, Any], status: int, retry_after: float | None = None) -> ApiError:
    """The exception for a `Status` body; the HTTP status decides if the reason is unknown."""
    cls = _BY_REASON.get(str(body.get("reason", ""))) or _BY_STATUS.get(status, ServerError)
    message = _legible(str(body.get("message") or f"HTTP {status}"))
    if cls is ServerError and AHEAD in message:
        cls = Expired
    error = cls(message, details=body.get("details"), retry_after=retry_after)
    error.status = status
    return error


def _legible(message: str) -> str:
    """Returns what is kept of a message: its beginning, without characters that control a terminal."""
    kept = message[:LONGEST]
    if not kept.isprintable():
        kept = "".join(
            each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in kept
        )
    return kept if len(message) <= LONGEST else f"{kept} …"

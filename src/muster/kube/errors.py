"""What an API server can answer instead of an object. `reason` is Kubernetes' own word."""

from typing import Any, Final

from muster.api.base import Object


class ApiError(Exception):
    """A `Status` with status Failure."""

    status: int = 500
    reason: str = "InternalError"

    def __init__(
        self, message: str, *, details: Object | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        #: seconds the server asks us to wait
        self.retry_after = retry_after

    def as_status(self) -> Object:
        """The `Status` object that tells it."""
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


class AlreadyExists(ApiError):
    status, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """Optimistic concurrency or a precondition failed."""

    status, reason = 409, "Conflict"


class Expired(ApiError):
    """The revision asked for is no longer kept; list again."""

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
    """The request was sent and no answer came: whether it took effect is unknown."""


class Unreachable(Exception):
    """The server could not be reached at all: nothing was sent."""


_CLASSES: Final[list[type[ApiError]]] = [
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
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


def from_status(body: dict[str, Any], status: int, retry_after: float | None = None) -> ApiError:
    """The exception for a `Status` body; unknown reasons fall back to the HTTP status."""
    cls = _BY_REASON.get(str(body.get("reason", ""))) or _BY_STATUS.get(status, ServerError)
    error = cls(
        str(body.get("message") or f"HTTP {status}"), details=body.get("details"), retry_after=retry_after
    )
    error.status = status
    return error

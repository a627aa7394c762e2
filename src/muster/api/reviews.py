"""Questions to an API server, which it answers and does not store: whose a token is, and what its user may.

Source: kubernetes, staging/src/k8s.io/api/authentication/v1 and authorization/v1.
"""

from typing import Final

from muster.api.base import Kind, Resource, Struct


class UserInfo(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class TokenReviewStatus(Struct, frozen=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()


class TokenReview(Resource, frozen=True):
    status: TokenReviewStatus = TokenReviewStatus()


class AccessStatus(Struct, frozen=True):
    allowed: bool = False


class SubjectAccessReview(Resource, frozen=True):
    status: AccessStatus = AccessStatus()


TOKEN_REVIEW: Final = Kind(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, TokenReview, status=False
)
SUBJECT_ACCESS_REVIEW: Final = Kind(
    *("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews"),
    *(False, SubjectAccessReview),
    status=False,
)

"""Who is asking, and what they may do: the reviews behind `kubectl auth can-i` and `auth whoami`.

The embedded cluster has one user, who may do everything: the owner of the token. Reviews are answered, never
stored.

Source: kubernetes, pkg/apis/authorization and pkg/apis/authentication.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from muster.api.base import Object

USER: Final = "muster"
GROUPS: Final = ("system:masters", "system:authenticated")
_EVERYTHING: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_ALL_PATHS: Final = {"verbs": ["*"], "nonResourceURLs": ["*"]}


class Review(NamedTuple):
    group: str
    kind: str
    plural: str
    answer: Callable[[], Object]

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/v1/{self.plural}"


REVIEWS: Final = (
    Review(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        lambda: {"allowed": True, "reason": "the token of this cluster may do everything"},
    ),
    Review(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        lambda: {"resourceRules": [_EVERYTHING], "nonResourceRules": [_ALL_PATHS], "incomplete": False},
    ),
    Review(
        "authentication.k8s.io",
        "SelfSubjectReview",
        "selfsubjectreviews",
        lambda: {"userInfo": {"username": USER, "groups": list(GROUPS)}},
    ),
)
_BY_PATH: Final = {review.path: review for review in REVIEWS}


def at(path: str) -> Review | None:
    """The review that is created at a path; None if there is none."""
    return _BY_PATH.get(path.rstrip("/"))


def answer(review: Review, asked: Object) -> Object:
    """The review with its answer as status."""
    return {
        "kind": review.kind,
        "apiVersion": f"{review.group}/v1",
        "metadata": {},
        **({"spec": asked["spec"]} if "spec" in asked else {}),
        "status": review.answer(),
    }

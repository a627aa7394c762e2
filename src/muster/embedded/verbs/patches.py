"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902). The functions do not change their arguments."""

from typing import Final

from muster.api.base import Object
from muster.kube.apply import merge
from muster.kube.errors import INAPPLICABLE, BadRequest, Invalid, TooLarge

#: Most operations in one JSON patch, as Kubernetes' limit.
MAX_OPERATIONS: Final = 10_000


def apply(obj: Object, patch: Object | list[Object]) -> Object:
    """`obj` with `patch` applied; a patch that is an object is a merge patch, a list is a JSON patch."""
    if isinstance(patch, dict):
        merged = merge(obj, patch)
        assert isinstance(merged, dict), "an object merged into an object is one"
        return merged
    if not isinstance(patch, list):
        raise BadRequest("a patch is an object (merge patch) or a list of operations (JSON patch)")
    if len(patch) > MAX_OPERATIONS:
        raise TooLarge(f"the patch has {len(patch)} operations, limit is {MAX_OPERATIONS}")
    return _operate(obj, patch)


def _operate(obj: Object, patch: list[Object]) -> Object:
    import jsonpatch  # here, because most runs never need it

    try:
        patched = jsonpatch.apply_patch(obj, patch)
    except jsonpatch.InvalidJsonPatch as error:
        raise BadRequest(f"invalid JSON patch: {error}") from None
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise Invalid(f"{INAPPLICABLE}: {error or 'a test failed'}") from None
    except (TypeError, AttributeError, KeyError) as error:
        raise BadRequest(f"invalid JSON patch: {error}") from None
    if not isinstance(patched, dict):
        raise BadRequest("the JSON patch replaces the object by a value that is not an object")
    return patched

"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902). The functions do not change their arguments."""

from copy import deepcopy
from typing import Final

import msgspec

from muster.api.base import Object
from muster.kube.apply import merge
from muster.kube.errors import INAPPLICABLE, BadRequest, Invalid, TooLarge

#: Most operations in one JSON patch, as Kubernetes' limit.
MAX_OPERATIONS: Final = 10_000
#: Most bytes that the operations of one JSON patch copy within the object, as Kubernetes' limit.
MAX_COPIED: Final = 3 * 1024 * 1024
_OPERATIONS: Final = ("add", "copy", "move", "remove", "replace", "test")
#: Most characters that an error quotes of a patch.
_LONGEST: Final = 200


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

    copied = 0
    patched: object = deepcopy(obj)
    for number, operation in enumerate(patch):
        try:
            if isinstance(operation, dict) and operation.get("op") not in _OPERATIONS:
                raise jsonpatch.InvalidJsonPatch(f"op is one of {', '.join(_OPERATIONS)}")
            # a copy, since later operations may change a value that this one adds
            single = jsonpatch.JsonPatch([deepcopy(operation)])
            if operation["op"] == "copy":
                if "from" not in operation:
                    raise jsonpatch.InvalidJsonPatch("a copy has a 'from'")
                source = jsonpatch.JsonPointer(operation["from"]).resolve(patched)
                copied += len(msgspec.json.encode(source))
                if copied > MAX_COPIED:
                    raise TooLarge(f"the patch copies {copied} bytes, limit is {MAX_COPIED}")
            patched = single.apply(patched, in_place=True)
        except (jsonpatch.InvalidJsonPatch, TypeError, AttributeError) as error:
            raise BadRequest(f"invalid JSON patch: {_which(number, operation)}: {_short(error)}") from None
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, KeyError) as error:
            failed = isinstance(error, jsonpatch.JsonPatchTestFailed)
            why = "the value there is another" if failed else _short(error)
            raise Invalid(f"{INAPPLICABLE}: {_which(number, operation)}: {why}") from None
        except RecursionError:
            raise BadRequest(f"invalid JSON patch: {_which(number, operation)}: nested too deeply") from None
    if not isinstance(patched, dict):
        raise BadRequest("the JSON patch replaces the object by a value that is not an object")
    return patched


def _which(number: int, operation: object) -> str:
    """The operation, as people find it in the patch."""
    if not isinstance(operation, dict):
        return f"operation {number}"
    words = (str(operation[key]) for key in ("op", "path") if key in operation)
    return f"operation {number} ({' '.join(word[:_LONGEST] for word in words)})"


def _short(error: Exception) -> str:
    """What the library says of a patch, without the document, which it may print."""
    text = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return text.partition(" not found in ")[0][:_LONGEST] + " not found" * (" not found in " in text)

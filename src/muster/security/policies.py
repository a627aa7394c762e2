"""The administrator's policies, parsed and checked against muster's schema.

Cedar skips a policy that fails while it is evaluated. Here such a policy counts as a denial that names it: a
`forbid` with a mistake must not let anything through. A text that breaks the schema is refused as a whole.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cedarpy

SCHEMA_TEXT: Final = Path(__file__).with_name("muster.cedarschema").read_text()
SCHEMA: Final = cedarpy.Schema.from_str(SCHEMA_TEXT)
#: Bytes of all policies of a cluster.
MAX_BYTES: Final = 2**20
#: Policies of a cluster.
MAX_POLICIES: Final = 5_000

_POSITION: Final = re.compile(r"policy(\d+)")


class InvalidPolicy(ValueError):
    """A text of policies that cannot be used. `name` says which, `errors` all that is wrong with it."""

    def __init__(self, name: str, errors: list[str]) -> None:
        super().__init__("\n".join(f"{name}: {error}" for error in errors))
        self.name, self.errors = name, errors


@dataclass(frozen=True, slots=True)
class Answer:
    """What the policies say to one question. `reason` is "" if they permit it."""

    allowed: bool
    #: whether it is denied only because no policy permits it
    unspoken: bool = False
    #: ids of the policies that decided, or failed
    policies: tuple[str, ...] = ()
    reason: str = ""


class Policies:
    """A set of policies, each with an id: its `@id`, or the name of its text and its place there."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        """`texts`: name of a file or object → Cedar policies. Raises `InvalidPolicy`."""
        merged: dict[str, Any] = {}  # Any: Cedar's JSON
        if sum(map(len, (texts or {}).values())) > MAX_BYTES:
            raise InvalidPolicy("policies", [f"are larger than {MAX_BYTES // 2**20} MiB in all"])
        for name, text in sorted((texts or {}).items()):
            for id_, policy in _read(name, text).items():
                if id_ in merged:
                    raise InvalidPolicy(name, [f"there are two policies with the id {id_}"])
                merged[id_] = policy
        if len(merged) > MAX_POLICIES:
            raise InvalidPolicy("policies", [f"there are {len(merged):,}; the most is {MAX_POLICIES:,}"])
        whole = {"staticPolicies": merged, "templates": {}, "templateLinks": []}
        self._set = cedarpy.PolicySet.from_json_str(json.dumps(whole))
        self.permits = sum(policy["effect"] == "permit" for policy in merged.values())
        self.forbids = len(merged) - self.permits

    def ask(self, requests: Iterable[Mapping[str, Any]], entities: list[dict[str, Any]]) -> list[Answer]:
        """The answers in order. Requests and entities are Cedar's JSON."""
        known = cedarpy.Entities.from_json_str(json.dumps(entities), SCHEMA)
        results = cedarpy.is_authorized_batch([dict(each) for each in requests], self._set, known, SCHEMA)
        return [_answer(result) for result in results]


def read(directory: Path) -> Policies:
    """The policies of a directory's `*.cedar` files. Raises `InvalidPolicy` and OSError."""
    files = sorted(directory.glob("*.cedar"))
    if not directory.is_dir() or not files:
        raise InvalidPolicy(str(directory), ["has no *.cedar files"])
    texts: dict[str, str] = {}
    for file in files:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        try:
            texts[file.stem] = content.decode()
        except UnicodeDecodeError:
            raise InvalidPolicy(str(file), ["is not text in UTF-8"]) from None
    return Policies(texts)


def _read(name: str, text: str) -> dict[str, Any]:
    """The policies of one text by id, as Cedar's JSON."""
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(text))
        errors = [(each.policy_id, each.error) for each in cedarpy.validate_policies(text, SCHEMA).errors]
    except (ValueError, RecursionError) as error:
        raise InvalidPolicy(name, [f"is not Cedar: {error}"]) from None
    if parsed["templates"]:
        raise InvalidPolicy(name, ["has a template (?principal, ?resource); write policies without slots"])
    policies: dict[str, Any] = parsed["staticPolicies"]
    ids: dict[str, str] = {}
    for number, position in enumerate(sorted(policies, key=_number)):
        written = (policies[position].get("annotations") or {}).get("id")
        ids[position] = written or (name if len(policies) == 1 else f"{name}.{number + 1}")
    if errors:
        raise InvalidPolicy(name, [_POSITION.sub(lambda m: ids.get(m[0], m[0]), text) for _, text in errors])
    if len(set(ids.values())) < len(ids):
        raise InvalidPolicy(name, ["has two policies with the same @id"])
    return {ids[position]: policy for position, policy in policies.items()}


def _number(position: str) -> int:
    match = _POSITION.fullmatch(position)
    return int(match[1]) if match else 0


def _answer(result: cedarpy.AuthzResult) -> Answer:
    """Allowed only if a policy permits, none forbids, and none fails."""
    if errors := result.diagnostics.errors:
        return Answer(False, reason="a policy failed: " + "; ".join(sorted(errors)))
    decided = tuple(sorted(result.diagnostics.reasons))
    if result.decision is cedarpy.Decision.Allow:
        return Answer(True, policies=decided)
    if decided:
        return Answer(False, policies=decided, reason=f"forbidden by {', '.join(decided)}")
    return Answer(False, unspoken=True, reason="no policy permits it")

"""The administrator's policies, parsed and checked against muster's schema.

Cedar skips a policy that fails while it is evaluated. Here such a policy counts as a denial that names it: a
`forbid` with a mistake must not let anything through. A text that breaks the schema is refused as a whole.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import cedarpy

from muster.compiler.spelling import Misspelt
from muster.security import ids

SCHEMA_TEXT: Final = Path(__file__).with_name("muster.cedarschema").read_text()
SCHEMA: Final = cedarpy.Schema.from_str(SCHEMA_TEXT)
#: Bytes of all policies of a cluster.
MAX_BYTES: Final = 2**20
#: Policies of a cluster.
MAX_POLICIES: Final = 5_000

#: Most nested brackets of one policy, and most operators: Cedar's parser uses the stack for each, and ends
#: the process when the stack is full (at about 1,000).
MAX_DEPTH: Final = 100
MAX_OPERATORS: Final = 500
_OURS: Final = "Muster::"
#: Characters of an error of Cedar's, which quotes names.
_LONGEST: Final = 400
#: Most levels of a policy as JSON; Cedar reads 128.
_MAX_LEVELS: Final = 120

#: A string without its closing quote is one token. Otherwise the search for that quote would be repeated from
#: each escaped quote in it, in quadratic time.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|//[^\n\r]*|[()\[\]{};]|&&|\|\||[-+*!.<>=]+|@|\w+', re.DOTALL)
_KEYWORDS: Final = frozenset({"if", "when", "unless", "in", "has", "like", "is"})
_OPERATORS: Final = frozenset("&|-+*!.<>=")
#: Names that policies may use, and where an error names one that they may not.
_WORDS: Final = sorted(set(re.findall(r"\w+", re.sub("//.*", "", SCHEMA_TEXT))))
_UNKNOWN: Final = re.compile(
    r'(?:attribute `|unrecognized (?:action|entity type) `(?:Muster::)?(?:Action::)?"?)(\w+)'
)
#: An error that Cedar adds to the one that names the cause.
_VAGUE: Final = "unable to find an applicable action"
_POSITION: Final = re.compile(r"policy(\d+)")


class InvalidPolicy(ValueError):
    """Policies that cannot be used. It lists everything that is wrong, as (name of a text, error)."""

    def __init__(self, faults: Iterable[tuple[str, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{name}: {error}" for name, error in self.faults))

    @property
    def errors(self) -> list[str]:
        """The errors without the names of their texts."""
        return [error for _, error in self.faults]


@dataclass(frozen=True, slots=True)
class Answer:
    """The policies' answer to one request. `reason` is "" if they permit it."""

    allowed: bool
    #: whether it is denied only because no policy permits it, and not by a forbid or a failure
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
            raise InvalidPolicy([("policies", f"are larger than {MAX_BYTES // 2**20} MiB in all")])
        faults: list[tuple[str, str]] = []
        for name, text in sorted((texts or {}).items()):
            try:
                read = _read(name, text)
            except InvalidPolicy as error:
                faults += error.faults
                continue
            faults += [(name, f"there are two policies with the id {id_}") for id_ in read if id_ in merged]
            merged |= read
        if faults:
            raise InvalidPolicy(faults)
        if len(merged) > MAX_POLICIES:
            raise InvalidPolicy([("policies", f"there are {len(merged):,}; the most is {MAX_POLICIES:,}")])
        whole = {"staticPolicies": merged, "templates": {}, "templateLinks": []}
        self._set = cedarpy.PolicySet.from_json_str(json.dumps(whole))
        self._forbidden: dict[str, set[str]] = {}
        for policy in merged.values():
            if policy["effect"] == "forbid":
                for type_, id_ in _resources(policy):
                    self._forbidden.setdefault(type_, set()).add(id_)
        self.permits = sum(policy["effect"] == "permit" for policy in merged.values())
        self.forbids = len(merged) - self.permits

    def forbidden(self, type_: str) -> Sequence[str]:
        """The ids of resources of a type that forbids name, sorted."""
        return sorted(self._forbidden.get(type_, ()))

    def ask(self, requests: Iterable[Mapping[str, Any]], entities: list[dict[str, Any]]) -> list[Answer]:
        """Returns the answers in order. Requests and entities are Cedar's JSON."""
        asked = [dict(each) for each in requests]
        try:
            known = cedarpy.Entities.from_json_str(json.dumps(entities), SCHEMA)
            results = cedarpy.is_authorized_batch(asked, self._set, known, SCHEMA)
        except ValueError as error:
            return [Answer(False, reason=f"internal authorization error: {error}")] * len(asked)
        return [_answer(result) for result in results]


def read(directory: Path, objects: Mapping[str, str] | None = None) -> Policies:
    """Returns the policies of a directory's `*.cedar` files, and of `objects`: CedarPolicies by name.

    Raises `InvalidPolicy` and OSError.
    """
    texts = dict(objects or {})
    listed = sorted(directory.glob("*.cedar"))
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise InvalidPolicy([(str(directory), f"{what}; name the directory with the policies")])
    if not (listed or texts):
        what = (
            "has no *.cedar files, and no CedarPolicy in a *.yaml file; an empty *.cedar file permits nothing"
        )
        raise InvalidPolicy([(str(directory), what)])
    files: dict[str, Path] = {}
    for file in listed:
        if not file.is_file():
            raise InvalidPolicy([(str(file), "is not a file")])
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        name = file.stem if file.stem not in texts else file.name
        files[name] = file
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError:
            raise InvalidPolicy([(str(file), "is not text in UTF-8")]) from None
    try:
        return Policies(texts)
    except InvalidPolicy as error:
        raise InvalidPolicy((str(files.get(name, name)), each) for name, each in error.faults) from None


def _read(name: str, text: str) -> dict[str, Any]:
    """The policies of one text by id, as Cedar's JSON."""
    begins = _begins(name, text)
    lines = [line for line, _ in begins]
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(text))
        errors = [(each.policy_id, each.error) for each in cedarpy.validate_policies(text, SCHEMA).errors]
    except (ValueError, RecursionError) as error:
        raise InvalidPolicy(
            [(name, _misread(text, begins) or f"is not Cedar: {_short(str(error))}")]
        ) from None
    if parsed["templates"]:
        raise InvalidPolicy([(name, "has a template (?principal, ?resource); write policies without slots")])
    policies: dict[str, Any] = parsed["staticPolicies"]
    named: dict[str, str] = {}
    for number, position in enumerate(sorted(policies, key=_number)):
        written = (policies[position].get("annotations") or {}).get("id")
        named[position] = written or (name if len(policies) == 1 else f"{name}.{number + 1}")
    if errors:
        clear = {position for position, text in errors if _VAGUE not in text}
        told = (
            (position, _POSITION.sub(lambda m: named.get(m[0], m[0]), text))
            for position, text in errors
            if _VAGUE not in text or position not in clear
        )
        raise InvalidPolicy(
            (
                name,
                f"line {lines[min(_number(position), len(lines) - 1)]}: {_short(text)}{_nearest(text)}",
            )
            for position, text in told
        )
    if deep := sorted(position for position, each in policies.items() if _levels(each) > _MAX_LEVELS):
        raise InvalidPolicy(
            (
                name,
                f"line {lines[_number(each)]}: {named[each]} has too long a condition; split the policy",
            )
            for each in deep
        )
    if other := [
        f"line {lines[min(_number(position), len(lines) - 1)]}: {told}"
        for position, policy in sorted(policies.items(), key=lambda each: _number(each[0]))
        for told in _misspelt(policy)
    ]:
        raise InvalidPolicy((name, each) for each in other)
    if len(set(named.values())) < len(named):
        raise InvalidPolicy([(name, "has two policies with the same @id")])
    return {named[position]: policy for position, policy in policies.items()}


def _resources(value: Any) -> Iterator[tuple[str, str]]:  # Any: JSON
    """Type and id of every entity that a policy names, of those that muster defines."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            if each.keys() == {"type", "id"} and str(each["type"]).startswith(_OURS):
                yield str(each["type"]).removeprefix(_OURS), str(each["id"])
            rest += each.values()
        elif isinstance(each, list):
            rest += each


def _misspelt(policy: Any) -> Iterator[str]:  # Any: JSON
    """What is wrong with ids that no resource has: a forbid of one would forbid nothing.

    A permit of one permits nothing, which needs no error: the denial prints the permit with the right id.
    """
    if policy["effect"] != "forbid":
        return
    for type_, id_ in sorted(set(_resources(policy))):
        try:
            ids.attributes(type_, id_)
        except Misspelt as error:
            yield f"Muster::{type_}::{json.dumps(id_[:80], ensure_ascii=False)} names no resource: {error}"


def _short(error: str) -> str:
    """The error without the middle of what it quotes."""
    return error if len(error) <= _LONGEST else f"{error[: _LONGEST // 2]} … {error[-_LONGEST // 2 :]}"


def _nearest(error: str) -> str:
    """Returns a hint about the name that an error calls unknown."""
    match = _UNKNOWN.search(error)
    close = get_close_matches(match[1], _WORDS, n=1) if match is not None else []
    return f"; did you mean {close[0]}?" if close and match and close[0] != match[1] else ""


def _misread(text: str, begins: Sequence[tuple[int, int]]) -> str:
    """Returns the line and the error of the first policy that is not Cedar, whose errors name no place."""
    ends = [*(offset for _, offset in begins[1:]), len(text)]
    for (line, offset), end in zip(begins[:MAX_POLICIES], ends, strict=False):
        try:
            cedarpy.policies_to_json_str(text[offset:end])
        except (ValueError, RecursionError) as error:
            return f"line {line}: is not Cedar: {_short(str(error))}"
    return ""


def _begins(name: str, text: str) -> list[tuple[int, int]]:
    """Returns each policy's first line, and its offset.

    Raises `InvalidPolicy` if a policy would overflow Cedar's stack.
    """
    depth = operators = at = 0
    line = 1
    begins: list[tuple[int, int]] = []
    begun = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith("//"):
            continue
        line, at = line + text.count("\n", at, match.start()), match.start()
        if not begun:
            begins.append((line, at))
        begun = token != ";"
        match token:
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
            case ";":
                operators = 0
            case _ if token in _KEYWORDS or token[0] in _OPERATORS:
                operators += len(token) if token[0] in "-!" else 1
        if depth > MAX_DEPTH or operators > MAX_OPERATORS:
            what = f"brackets nested deeper than {MAX_DEPTH}" if depth > MAX_DEPTH else "too long a condition"
            raise InvalidPolicy([(name, f"line {line}: has {what}; split the policy")])
    return begins or [(1, 0)]


def _levels(value: Any) -> int:  # Any: JSON
    """How deep JSON is nested."""
    deepest, rest = 0, [(value, 1)]
    while rest:
        each, level = rest.pop()
        deepest = max(deepest, level)
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        rest += [(child, level + 1) for child in inner]
    return deepest


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
    if result.decision is not cedarpy.Decision.Deny:
        return Answer(False, reason="internal authorization error: the request cannot be decided")
    return Answer(False, unspoken=True, reason="no policy permits it")

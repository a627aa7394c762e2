"""Hostile groups of each dialect: a fault keeps its own gang from starting, with the field; others start."""

import json
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest

from muster import names
from muster.api import groups, kinds
from muster.api.base import Object
from muster.api.groups import Dialect
from muster.api.koordinator_v1alpha1 import GROUPS, TOPOLOGY_SPEC
from muster.core.words.decisions import Assign, Decision, Wait
from muster.core.words.gang import Code
from muster.translate.dialects import Reader
from muster.workloads.findings import JobFileError
from muster.workloads.load import load
from tests.objects import PLAIN_SPEC
from tests.runtime.test_hostile import GOOD, Watched
from tests.tiers import examples

ROWS: Final = pytest.mark.parametrize("row", groups.NAMED, ids=lambda row: row.name)
_MUST: Final = '{"gatherStrategy": [{"layer": "nowhere", "strategy": "MustGather"}]}'
#: By annotation, values that cannot be honoured.
MALFORMED: Final = [
    *((GROUPS, text) for text in ("g", "[", "{}", '["h"]', "[1]", '["theirs/h"]', '["ns/g", "theirs/h"]')),
    *((TOPOLOGY_SPEC, text) for text in ("rack", "[]", '{"gatherStrategy": 5}', _MUST)),
    *((names.PRIORITY, text) for text in ("highest", "1e999", "9" * 30)),
    *((names.HOLD, text) for text in ("perhaps", "[]")),
    *((names.EXCLUSIVE, text) for text in ("nowhere", "{}")),
    *((names.QUEUE, text) for text in ("nowhere", "no/such", "x" * 9999)),
]


def group(
    row: Dialect,
    name: str,
    least: int = 1,
    namespace: str = "ns",
    notes: Mapping[str, str] = MappingProxyType({}),
) -> Object:
    """An object of this dialect: of Kubernetes' own by policy, of all others by `minMember`."""
    own = {"schedulingPolicy": {"gang": {"minCount": least}}} if row.in_spec else {"minMember": least}
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "resourceVersion": "1"}
    return {"metadata": {**meta, "annotations": {**notes}}, "spec": own}


def member(row: Dialect, of: str, namespace: str = "ns", cpu: str = "0") -> Object:
    meta: Object = {
        "name": f"{of}-0",
        "namespace": namespace,
        "uid": f"{namespace}/{of}-0",
        "resourceVersion": "1",
    }
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec: Object = {**PLAIN_SPEC, "containers": [container]}
    if row.in_spec:
        spec["schedulingGroup"] = {"podGroupName": of}
    elif row.label:
        meta["labels"] = {row.label: of}
    else:
        meta["annotations"] = {row.naming.annotations[0]: of}
    return {"metadata": meta, "spec": spec}


def cluster() -> Watched:
    watched = Watched()
    room = {"allocatable": {"cpu": "4", "pods": "99"}, "conditions": [{"type": "Ready", "status": "True"}]}
    watched.put(kinds.NODE, {"metadata": {"name": "n", "uid": "n"}, "status": room})
    for kind, body in GOOD:
        watched.put(kind, body)
    return watched


def outcomes(decisions: list[Decision]) -> dict[str, Any]:  # Any: a code, or nodes
    """By gang: why it waits, or "starts"."""
    found: dict[str, Any] = {}
    for each in decisions:
        if isinstance(each, Wait):
            found[each.gang] = each.explanation
        elif isinstance(each, Assign):
            found[each.gang] = "starts"
    return found


@ROWS
@pytest.mark.parametrize(("key", "text"), MALFORMED, ids=lambda text: text[:30])
def test_an_annotation_that_cannot_be_honoured_is_named_and_harms_its_own_gang_only(
    row: Dialect, key: str, text: str
) -> None:
    watched = cluster()
    watched.put(row.kind, group(row, "g", notes={key: text}))
    watched.put(kinds.POD, member(row, "g"))
    watched.put(row.kind, group(row, "h", namespace="theirs"))
    watched.put(kinds.POD, member(row, "h", "theirs"))
    found = outcomes(watched.cycle())
    assert found.pop("elsewhere/good") == found.pop("theirs/h") == "starts"
    (why,) = found.values()
    assert why != "starts"
    assert why.code is Code.INVALID
    told = {key, key.rpartition("/")[2], "queue", "layer", "theirs/h", text[:30]}
    assert any(word in why.message for word in told), why.message
    assert len(why.message) < 2000


@ROWS
def test_a_group_that_names_itself_is_its_own_gang(row: Dialect) -> None:
    watched = cluster()
    watched.put(row.kind, group(row, "g", notes={GROUPS: json.dumps(["ns/g", "ns/g"])}))
    watched.put(kinds.POD, member(row, "g"))
    assert outcomes(watched.cycle())["ns/g"] == "starts"


@ROWS
def test_namespaces_that_do_not_agree_hold_up_the_one_that_asks_only(row: Dialect) -> None:
    """The other starts, whichever comes first; once it agrees to, they are one gang."""
    both = {GROUPS: json.dumps(["ns/g", "theirs/h"])}
    for order in (1, -1):
        watched = cluster()
        for put in [("ns", "g", both), ("theirs", "h", {GROUPS: '["theirs/h"]'})][::order]:
            namespace, name, notes = put
            watched.put(row.kind, group(row, name, namespace=namespace, notes=notes))
            watched.put(kinds.POD, member(row, name, namespace))
        found = outcomes(watched.cycle())
        assert found["theirs/h"] == "starts"
        assert found["ns/g"].code is Code.INVALID
    watched = cluster()
    for namespace, name in (("ns", "g"), ("theirs", "h")):
        watched.put(row.kind, group(row, name, namespace=namespace, notes=both))
        watched.put(kinds.POD, member(row, name, namespace))
    found = outcomes(watched.cycle())
    assert found == {"elsewhere/good": "starts", "ns/g": "starts"}


@ROWS
def test_garbage_is_read_once_and_costs_later_gangs_nothing(
    row: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of groups without pods, with absurd minima, with faults, and with pods that fit nowhere."""
    count = examples(1000)
    watched, read = cluster(), Counter[str]()
    inner = Reader._read

    def counted(self: Reader, touched: Any) -> Any:  # Any: as the reader has it
        read[self._key.name] += 1
        return inner(self, touched)

    monkeypatch.setattr(Reader, "_read", counted)
    for number in range(count):
        least = (2, 2**31 - 1, 1, 50_001)[number % 4]
        notes = {GROUPS: "["} if number % 5 == 0 else {}
        watched.put(row.kind, group(row, f"x{number}", least, notes=notes))
        if number % 4 == 2:
            watched.put(kinds.POD, member(row, f"x{number}", cpu="999"))
    found = outcomes(watched.cycle())
    assert found["elsewhere/good"] == "starts"
    assert sum(what == "starts" for what in found.values()) == 1
    assert max(read.values()) <= 2
    watched.cycle()
    read.clear()
    watched.put(row.kind, group(row, "late"))
    watched.put(kinds.POD, member(row, "late"))
    assert outcomes(watched.cycle()) == {"ns/late": "starts"}
    assert read == Counter({"late": read["late"]}), "no other group is read again"


@ROWS
@pytest.mark.parametrize("version", ["v9", "v1alpha0", ""])
def test_a_version_that_is_not_read_is_refused_with_those_that_are(row: Dialect, version: str) -> None:
    name = f"{row.kind.group}/{version}" if version else row.kind.group
    body = {"apiVersion": name, "kind": row.kind.kind, **group(row, "g")}
    with pytest.raises(JobFileError) as refused:
        load("f.yaml", text=json.dumps(body))
    assert row.kind.api_version in str(refused.value)

"""What a mirror tells of pods with claims of devices, and of the devices that claims have."""

from typing import Any, Final

import msgspec
import pytest

from muster.api.base import AnyKind, Object
from muster.api.kinds import DEVICE_CLASS, JOB, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from muster.core.words.devices import ClaimShape, DeviceId, DevicesChanged
from muster.core.words.events import OutOfReach, PodsBound, PodsEnded
from muster.core.words.gang import Code, GangId, Gate, PodSet
from muster.kube.decode import decode
from muster.names import GANG
from muster.runtime.mirror import Changes, Mirror

TIME: Final = "2026-01-01T00:00:00Z"
HOLDS: Final = "device.driver == 'gpu.x'"


class Seen:
    """A mirror, and what it has told of devices and of pods on nodes."""

    def __init__(self, schedulers: frozenset[str] | None = None) -> None:
        self.mirror = Mirror(schedulers)
        self._objects: dict[tuple[AnyKind, str], Any] = {}  # Any: objects of many types
        self.devices: dict[str, DevicesChanged] = {}
        self.pods: dict[str, PodsBound] = {}
        self.hints: dict[str, str] = {}
        self.put(DEVICE_CLASS, "gpu", selectors=[{"cel": {"expression": HOLDS}}])
        self.put(
            RESOURCE_SLICE,
            "slice",
            driver="gpu.x",
            nodeName="n0",
            pool={"name": "n0", "generation": 1, "resourceSliceCount": 1},
            devices=[{"name": f"gpu-{i}"} for i in range(4)],
        )

    def put(
        self, kind: AnyKind, name: str, status: Object | None = None, meta: Object | None = None, **spec: Any
    ) -> None:  # Any: fields as JSON
        namespace = {"namespace": "ns"} if kind.namespaced else {}
        body = {
            "metadata": {"name": name, "uid": name, "creationTimestamp": TIME, **namespace, **(meta or {})}
        }
        new = decode(kind, msgspec.json.encode({**body, "spec": spec, "status": status or {}}))
        self.mirror.change(kind, self._objects.get((kind, name)), new)
        self._objects[kind, name] = new

    def drop(self, kind: AnyKind, name: str) -> None:
        self.mirror.change(kind, self._objects.pop((kind, name)), None)

    def template(self, name: str = "one", **exactly: Any) -> None:
        self.put(RESOURCE_CLAIM_TEMPLATE, name, spec={"devices": asks(**exactly)})

    def pod(
        self,
        name: str,
        *,
        node: str = "",
        phase: str = "",
        template: str = "one",
        meta: Object | None = None,
        **more: Any,
    ) -> None:
        self.put(
            POD,
            name,
            {"phase": phase, "resourceClaimStatuses": [{"name": "c", "resourceClaimName": f"{name}-c"}]},
            meta,
            nodeName=node,
            resourceClaims=[{"name": "c", "resourceClaimTemplateName": template}],
            containers=[{"name": "main"}],
            **more,
        )

    def claim(self, name: str, *devices: str, of: str = "", reserved: bool = True, **exactly: Any) -> None:
        """A claim with these devices, made for a pod and reserved for it."""
        results = [{"request": "r", "driver": "gpu.x", "pool": "n0", "device": each} for each in devices]
        status: Object = {"allocation": {"devices": {"results": results}}} if devices else {}
        meta: Object = {}
        if of:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": of, "uid": of, "controller": True}
            meta = {"ownerReferences": [owner]}
            if reserved and devices:
                status["reservedFor"] = [{"resource": "pods", "name": of, "uid": of}]
        self.put(RESOURCE_CLAIM, name, status, meta, devices=asks(**exactly))

    def drain(self) -> Changes:
        found = self.mirror.drain(0.0)
        for event in found.events:
            match event:
                case DevicesChanged(node):
                    self.devices[node] = event
                case PodsBound(pods):
                    self.pods |= dict.fromkeys(pods, event)
                case PodsEnded(pods):
                    for pod in pods:
                        del self.pods[pod]
                case OutOfReach(hints):
                    self.hints = dict(hints)
                case _:
                    pass
        return found

    def answer(self, faults: dict[str, str] | None = None) -> None:
        devices = self.mirror.devices
        for expression, of in devices.questions():
            fault = (faults or {}).get(expression, "")
            devices.tell(expression, of, [not fault] * len(of), fault)

    @property
    def taken(self) -> list[str]:
        return [each.rpartition("/")[2] for each in self.devices["n0"].taken]

    def gate(self, gang: str) -> Gate | None:
        return self.mirror.groups[GangId(f"ns/{gang}")].gang.gate

    def pod_set(self, gang: str) -> PodSet:
        (found,) = self.mirror.groups[GangId(f"ns/{gang}")].gang.pod_sets
        return found

    def claims(self, gang: str) -> tuple[ClaimShape, ...]:
        return self.pod_set(gang).shape.claims


def asks(**exactly: Any) -> Object:
    return {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]}


@pytest.fixture
def seen() -> Seen:
    found = Seen()
    found.template()
    return found


def test_a_pod_on_a_node_has_the_devices_that_are_reserved_for_it(seen: Seen) -> None:
    seen.claim("a-c", "gpu-1", "gpu-2", of="a", count=2)
    seen.pod("a", node="n0")
    seen.drain()
    assert seen.pods["a"].footprint.devices == (DeviceId("gpu.x/n0/gpu-1"), DeviceId("gpu.x/n0/gpu-2"))
    assert dict(seen.pods["a"].requests)["deviceclass/gpu"] == 2
    assert seen.taken == [], "so an eviction of the pod frees them"


def test_a_pod_of_another_scheduler_has_its_devices_too() -> None:
    seen = Seen(frozenset({"muster"}))
    seen.claim("a-c", "gpu-1", of="a")
    seen.pod("a", node="n0", schedulerName="default-scheduler")
    seen.drain()
    assert seen.pods["a"].gang is None
    assert seen.pods["a"].footprint.devices == (DeviceId("gpu.x/n0/gpu-1"),)
    assert dict(seen.pods["a"].requests)["deviceclass/gpu"] == 1
    assert seen.taken == []


def test_devices_of_a_pod_without_a_node_are_taken(seen: Seen) -> None:
    seen.claim("a-c", "gpu-1", of="a")
    seen.pod("a")
    seen.drain()
    assert seen.taken == ["gpu-1"]
    seen.pod("a", node="n0")
    seen.drain()
    assert seen.taken == []


def test_devices_of_a_pod_that_has_ended_are_taken_until_its_claim_is_freed(seen: Seen) -> None:
    seen.claim("a-c", "gpu-1", of="a")
    seen.pod("a", node="n0")
    seen.drain()
    seen.pod("a", node="n0", phase="Succeeded")
    found = seen.drain()
    assert any(isinstance(each, PodsEnded) for each in found.events)
    assert seen.taken == ["gpu-1"], "as of the moment at which the pod has ended"
    seen.claim("a-c", of="a")
    seen.drain()
    assert seen.taken == []


def test_devices_of_a_claim_that_somebody_else_has_too_are_taken(seen: Seen) -> None:
    seen.claim("a-c", "gpu-1", of="a")
    seen.pod("a", node="n0")
    seen.claim("other", "gpu-1", "gpu-3")
    seen.drain()
    assert seen.taken == ["gpu-1", "gpu-3"]
    seen.drop(RESOURCE_CLAIM, "other")
    seen.drain()
    assert seen.taken == []


def test_a_pod_has_no_devices_of_a_claim_that_is_not_reserved_for_it(seen: Seen) -> None:
    seen.claim("a-c", "gpu-1", of="a", reserved=False)
    seen.pod("a", node="n0")
    seen.drain()
    assert not seen.pods["a"].footprint.devices
    assert seen.taken == ["gpu-1"]
    seen.claim("a-c", "gpu-1", of="a")
    seen.drain()
    assert seen.pods["a"].footprint.devices == (DeviceId("gpu.x/n0/gpu-1"),)
    assert seen.taken == []


def test_a_pod_asks_for_what_its_claim_says_whatever_has_become_of_the_template(seen: Seen) -> None:
    seen.pod("a")
    seen.drain()
    (claim,) = seen.claims("a")
    assert (claim.name, claim.requests[0].alternatives[0].count) == ("c", 1)
    seen.claim("a-c", of="a")
    seen.template(count=3)
    seen.drain()
    assert seen.claims("a") == (claim,)
    seen.drop(RESOURCE_CLAIM_TEMPLATE, "one")
    seen.drain()
    assert seen.claims("a") == (claim,)
    seen.claim("a-c", of="another")  # of a pod that has had the name
    seen.drain()
    gate = seen.gate("a")
    assert gate is not None
    assert gate.code is Code.GATED
    assert gate.message == "resourceClaims c: ResourceClaimTemplate one does not exist in its namespace"


def test_pods_of_a_job_that_has_not_started_ask_for_what_their_template_says(seen: Seen) -> None:
    claims = [{"name": "c", "resourceClaimTemplateName": "later"}]
    spec = {"resourceClaims": claims, "restartPolicy": "Never", "containers": [{"name": "main"}]}
    seen.put(JOB, "job", meta={"labels": {GANG: "true"}}, parallelism=2, template={"spec": spec})
    seen.drain()
    gate = seen.gate("job")
    assert gate is not None
    assert gate.message == "resourceClaims c: ResourceClaimTemplate later does not exist in its namespace"
    seen.template("later", count=2)
    seen.drain()
    assert dict(seen.pod_set("job").shape.requests)["deviceclass/gpu"] == 2
    seen.drop(DEVICE_CLASS, "gpu")
    seen.drain()
    gate = seen.gate("job")
    assert gate is not None
    assert gate.message == "resourceClaims c: DeviceClass gpu does not exist"


def selecting(*expressions: str) -> list[Object]:
    return [{"cel": {"expression": each}} for each in expressions]


def test_an_expression_is_evaluated_once_a_gang_asks_for_it(seen: Seen) -> None:
    seen.template("two", selectors=selecting("x"))
    seen.drain()
    assert [text for text, _ in seen.mirror.devices.questions()] == [HOLDS], "nothing asks for x"
    seen.pod("a", template="two")
    seen.drain()
    assert [(text, len(of)) for text, of in seen.mirror.devices.questions()] == [(HOLDS, 1), ("x", 1)]
    assert [text for text in seen.hints.values() if "still being evaluated" in text] != []
    seen.answer()
    seen.drain()
    assert [text for text in seen.hints.values() if "still being evaluated" in text] == []
    assert [*seen.mirror.devices.questions()] == []


def test_an_expression_that_cannot_be_evaluated_refuses_its_own_gang_only(seen: Seen) -> None:
    seen.template("bad", selectors=selecting("1"))
    seen.pod("a", template="bad")
    seen.pod("b")
    seen.drain()
    seen.answer({"1": "it is INT, and must be true or false"})
    seen.drain()
    gate = seen.gate("a")
    assert gate is not None
    assert gate.code is Code.INVALID
    told = "resourceClaims c: ResourceClaimTemplate bad: the expression '1' selects no device: it is INT, and"
    assert gate.message.startswith(told)
    other = seen.gate("b")
    assert other is None or "expression" not in other.message
    seen.drop(RESOURCE_CLAIM_TEMPLATE, "bad")
    seen.template("bad")
    seen.drain()
    gate = seen.gate("a")
    assert gate is None or "expression" not in gate.message


def test_a_class_that_cannot_be_evaluated_lets_its_gangs_wait(seen: Seen) -> None:
    seen.pod("a")
    seen.drain()
    seen.answer({HOLDS: "no such thing"})
    seen.drain()
    gate = seen.gate("a")
    assert gate is not None
    assert gate.code is Code.GATED
    assert "DeviceClass gpu: the expression" in gate.message
    seen.put(DEVICE_CLASS, "gpu", selectors=[])
    seen.drain()
    gate = seen.gate("a")
    assert gate is None or "expression" not in gate.message


def test_claims_that_no_gang_has_any_more_are_forgotten_when_there_are_many(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.translate.devices.asks.MOST", 5)
    for number in range(8):
        seen.template(f"t{number}", selectors=selecting(f"x{number}"))
    for number in range(4):
        seen.pod(f"a{number}", template=f"t{number}")
    seen.drain()
    for number in range(3):
        seen.drop(POD, f"a{number}")
    seen.drain()
    seen.answer()
    seen.drain()
    for number in range(4, 8):
        seen.pod(f"a{number}", template=f"t{number}")
    seen.drain()
    assert [text for text, _ in seen.mirror.devices.questions()] == [f"x{number}" for number in range(4, 8)]
    seen.template("more", selectors=selecting("more"))
    seen.pod("b", template="more")
    seen.drain()
    gate = seen.gate("b")
    assert gate is not None
    assert "in too many ways" in gate.message


def test_a_gang_that_found_no_room_for_its_claim_asks_again_once_there_is_some(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.translate.devices.asks.MOST", 4)
    for number in range(5):
        seen.template(f"t{number}", selectors=selecting(f"x{number}"))
        seen.pod(f"a{number}", template=f"t{number}")
    seen.drain()
    gate = seen.gate("a4")
    assert gate is not None
    assert gate.code is Code.GATED
    seen.drop(POD, "a1")
    seen.drain()
    gate = seen.gate("a4")
    assert gate is None or "too many ways" not in gate.message
    seen.drain()
    assert "x4" in [text for text, _ in seen.mirror.devices.questions()]


@pytest.mark.parametrize(("limit", "most"), [("MOST_OF_NAMESPACE", 3), ("MOST_QUESTIONS_OF_NAMESPACE", 6)])
def test_what_one_namespace_asks_keeps_no_other_from_asking(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(f"muster.translate.devices.asks.{limit}", most)
    for number in range(4):
        seen.template(f"t{number}", selectors=selecting(f"x{number}", f"y{number}"))
        seen.pod(f"a{number}", template=f"t{number}")
    elsewhere = {"namespace": "other"}
    other = {"devices": asks(selectors=selecting("theirs"))}
    seen.put(RESOURCE_CLAIM_TEMPLATE, "their-own", meta=elsewhere, spec=other)
    seen.pod("b", template="their-own", meta=elsewhere)
    seen.drain()
    assert [name for name in ("a0", "a1", "a2", "a3") if seen.gate(name)] == ["a3"]
    gate = seen.gate("a3")
    assert gate is not None
    assert gate.message.startswith("the claims of its namespace ask for devices in too many ways: more")
    seen.drain()
    asked = [text for text, _ in seen.mirror.devices.questions()]
    assert "theirs" in asked
    assert "x3" not in asked
    seen.drop(POD, "a0")
    seen.drain()
    assert seen.gate("a3") is None


def test_pods_of_one_job_whose_claims_differ_are_refused(seen: Seen) -> None:
    claims = [{"name": "c", "resourceClaimTemplateName": "one"}]
    spec = {"resourceClaims": claims, "restartPolicy": "Never", "containers": [{"name": "main"}]}
    seen.put(JOB, "job", meta={"labels": {GANG: "true"}}, parallelism=2, template={"spec": spec})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": True}
    for name, count in (("job-0", 1), ("job-1", 2)):
        seen.claim(f"{name}-c", of=name, count=count)
        seen.pod(name, meta={"ownerReferences": [owner]}, restartPolicy="Never")
    seen.drain()
    gate = seen.gate("job")
    assert gate is not None
    assert gate.code is Code.INVALID
    assert gate.message.startswith("the resourceClaims of the pods of main ask for different devices; delete")
    seen.claim("job-1-c", of="job-1", count=1)
    seen.drain()
    gate = seen.gate("job")
    assert gate is None or "different devices" not in gate.message


def test_while_claims_may_not_be_listed_no_device_is_free(seen: Seen) -> None:
    counts = []
    for blind in (False, True, False):
        seen.mirror.devices.blind = blind
        seen.drain()
        counts.append(len(seen.devices["n0"].devices))
        assert blind == ("may not list resourceclaims" in seen.hints.get("deviceclass/gpu", ""))
    assert counts == [4, 0, 4]

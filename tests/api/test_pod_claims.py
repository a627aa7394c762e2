"""`api.pod_claims`: which claims a pod has, read in time that is linear in their number."""

from collections.abc import Callable, Iterator

import msgspec
import pytest
from msgspec.structs import replace

from muster.api import pod_claims
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.embedded.node.claims import refusal
from muster.embedded.node.environment import Lookup
from muster.translate.devices.pods import Known, made_for


class Counting(list[Object]):
    """A list that counts how often it is read."""

    reads = 0

    def __iter__(self) -> Iterator[Object]:
        self.reads += 1
        return super().__iter__()


def pod(number: int, **status: object) -> Pod:
    """A pod that needs none of its claims: its status says so."""
    claims = [{"name": f"c{i}", "resourceClaimTemplateName": "t"} for i in range(number)]
    statuses = [{"name": f"c{i}", **status} for i in range(number)]
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    found = msgspec.convert({"metadata": metadata}, Pod)
    return replace(
        found,
        spec=replace(found.spec, resource_claims=Counting(claims)),
        status=replace(found.status, resource_claim_statuses=Counting(statuses)),
    )


READERS: dict[str, Callable[[Pod], object]] = {
    "names": pod_claims.names,
    "needed": pod_claims.needed,
    "all names": pod_claims.all_names,
    "what is asked for": lambda of: made_for(of, Known({}, {}, {})),
    "on its node": lambda of: refusal(of, Lookup(lambda name: None, lambda name: None)),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_the_lists_of_a_pod_are_read_as_often_however_long_they_are(read: Callable[[Pod], object]) -> None:
    def reads(number: int) -> int:
        of = pod(number)
        read(of)
        claims, statuses = of.spec.resource_claims, of.status.resource_claim_statuses
        assert isinstance(claims, Counting)
        assert isinstance(statuses, Counting)
        return claims.reads + statuses.reads

    assert reads(50) == reads(2) > 0


def test_a_claim_is_needed_unless_the_status_has_it_without_a_name() -> None:
    assert pod_claims.needed(pod(2)) == []
    assert pod_claims.needed(pod(2, resourceClaimName="x")) == ["c0", "c1"]
    assert pod_claims.unneeded(pod(2)) == {"c0", "c1"}


@pytest.mark.parametrize(("number", "read"), [(0, False), (1, True), (32, True), (33, False)])
def test_claims_are_read_up_to_a_number(number: int, read: bool) -> None:
    assert pod_claims.claims_are_read(pod(number)) is read

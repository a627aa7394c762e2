"""The claim that stands for what a pod requests by number."""

import pytest

from muster.api import pod_claims
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.fields import convert
from muster.api.resource_v1 import ResourceClaim
from muster.core.words.devices import BY_NUMBER, Allocation, DeviceId
from muster.translate.devices.by_number import claim_of, name_of, requests_of

GPU, NIC = "nvidia.com/gpu", "example.com/nic"
COUNTED = {"gpus": GPU, "nics": NIC, "other": "deviceclass/other"}


def container(name: str, always: bool = False, **asked: str) -> Object:
    names = {"gpu": GPU, "nic": NIC, "other": "deviceclass.resource.kubernetes.io/other"}
    limits = {names.get(each, each): amount for each, amount in asked.items()}
    more = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "resources": {"limits": limits}, **more}


def pod(*containers: Object, first: tuple[Object, ...] = (), name: str = "p") -> Pod:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
    return convert({"metadata": meta, "spec": {"containers": [*containers], "initContainers": [*first]}}, Pod)


def asked(of: Pod, *resources: str) -> tuple[dict[str, tuple[str, int]], list[tuple[str, str, str]]]:
    found = requests_of(of, {*resources}, COUNTED)
    return {name: (class_, count) for name, class_, count, _ in found.requests}, [*found.mappings]


def test_each_container_has_a_request_whose_name_is_its_place() -> None:
    of = pod(container("a", cpu="1", gpu="2"), container("b", gpu="1", nic="3"))
    requests, mappings = asked(of, GPU, NIC)
    assert requests == {
        "container-0-request-1": ("gpus", 2),
        "container-1-request-1": ("gpus", 1),
        "container-1-request-0": ("nics", 3),
    }
    assert sorted(mappings) == [
        ("a", GPU, "container-0-request-1"),
        ("b", NIC, "container-1-request-0"),
        ("b", GPU, "container-1-request-1"),
    ]


def test_only_what_the_node_has_as_devices_is_requested() -> None:
    of = pod(container("a", gpu="2", nic="1", other="4"))
    assert asked(of, NIC)[0] == {"container-0-request-1": ("nics", 1)}
    assert asked(of, "deviceclass/other")[0] == {"container-0-request-0": ("other", 4)}
    assert asked(of)[0] == {}


def test_a_class_may_be_named_in_both_ways() -> None:
    of = pod(convert_limits("a", {GPU: "1", "deviceclass.resource.kubernetes.io/gpus": "2"}))
    assert asked(of, GPU)[0] == {"container-0-request-0": ("gpus", 2), "container-0-request-1": ("gpus", 1)}


def convert_limits(name: str, limits: Object) -> Object:
    return {"name": name, "resources": {"limits": limits}}


@pytest.mark.parametrize(
    ("first", "requests", "mappings"),
    [
        # it needs less than the containers after it have
        ([("i", False, "1")], {"container-1-request-0": 2}, [("i", "container-1-request-0")]),
        # it needs more
        (
            [("i", False, "5")],
            {"container-0-request-0": 3, "container-1-request-0": 2},
            [("i", "container-0-request-0"), ("i", "container-1-request-0")],
        ),
        # of several the largest has a request, which the others use
        (
            [("i", False, "3"), ("j", False, "4")],
            {"container-1-request-0": 2, "container-2-request-0": 2},
            [
                *(("i", "container-1-request-0"), ("i", "container-2-request-0")),
                *(("j", "container-1-request-0"), ("j", "container-2-request-0")),
            ],
        ),
        # a sidecar before it keeps its own
        (
            [("s", True, "1"), ("i", False, "3")],
            {"container-0-request-0": 1, "container-1-request-0": 1, "container-2-request-0": 2},
            [
                *(("i", "container-1-request-0"), ("i", "container-2-request-0")),
                ("s", "container-0-request-0"),
            ],
        ),
    ],
)
def test_an_init_container_uses_what_later_ones_have(
    first: list[tuple[str, bool, str]], requests: dict[str, int], mappings: list[tuple[str, str]]
) -> None:
    """The number is that by which the pod is charged."""
    from muster.api.requests import requests as charged

    before = tuple(container(name, always, gpu=number) for name, always, number in first)
    of = pod(container("main", gpu="2"), first=before)
    found, told = asked(of, GPU)
    assert {name: count for name, (_, count) in found.items()} == requests
    last = f"container-{len(first)}-request-0"
    assert sorted((name, request) for name, _, request in told) == sorted([*mappings, ("main", last)])
    assert sum(requests.values()) == dict(charged(of.spec))[GPU]


def test_devices_are_shared_out_by_request() -> None:
    of = requests_of(pod(container("a", gpu="2"), container("b", gpu="1")), {GPU}, COUNTED)
    devices = [DeviceId(f"d/n/{i}") for i in range(4)]
    given = of.shared_out(Allocation(BY_NUMBER, tuple((GPU, each) for each in devices[:3])))
    assert given is not None
    first, second = "container-0-request-0", "container-1-request-0"
    assert given.devices == ((first, devices[0]), (first, devices[1]), (second, devices[2]))
    for number in (2, 4):
        some = Allocation(BY_NUMBER, tuple((GPU, each) for each in devices[:number]))
        assert of.shared_out(some) is None


def test_the_claim_is_its_pods_own_and_has_these_requests() -> None:
    of = pod(container("a", gpu="2"))
    requests = requests_of(of, {GPU}, COUNTED)
    made = convert(claim_of(of, requests), ResourceClaim)
    assert pod_claims.is_made_for(of, made)
    assert made.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert requests.are_of(made)
    assert not requests_of(pod(container("a", gpu="1")), {GPU}, COUNTED).are_of(made)


def test_its_name_is_always_the_same_for_one_pod_and_never_too_long() -> None:
    names = {name_of(pod(container("a"), name=name)) for name in ("p", "q", "p" * 253, "p" * 252 + "q")}
    assert len(names) == 4
    assert max(map(len, names)) <= 253
    assert name_of(pod(container("a"), name="q")).startswith("q-extended-resources-")


def test_the_status_names_the_claim_and_which_request_is_for_what() -> None:
    of = pod(container("a", gpu="2"))
    status = requests_of(of, {GPU}, COUNTED).status("c")
    mapping = {"containerName": "a", "resourceName": GPU, "requestName": "container-0-request-0"}
    assert status == {"resourceClaimName": "c", "requestMappings": [mapping]}
    meta = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    told = convert({**meta, "status": {"extendedResourceClaimStatus": status}}, Pod)
    assert pod_claims.for_resources(told) == "c"
    assert pod_claims.requests_for(told, "a") == {"container-0-request-0"}
    assert not pod_claims.requests_for(told, "b")

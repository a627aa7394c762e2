"""What a workload may reach, and by which policy."""

from typing import Any

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.facts import SharedService
from tests.workloads.lattice.jobs import compiled, small

S3 = {"type": "external-service", "params": {"endpoints": {"s3": "https://s3.example.com"}}}
PEER = "muster.dev/peers"


def policy(facts: Facts | None = None, **resources: Any) -> Object:
    result = compiled(small(None, **resources), facts=facts)
    assert not result.problems, result.problems
    [found] = [each for each in result.support if each["kind"].endswith("NetworkPolicy")]
    spec: Object = found["spec"]
    return spec


def problems(facts: Facts | None = None, **resources: Any) -> list[str]:
    return [each.error.message for each in compiled(small(None, **resources), facts=facts).problems]


def test_nothing_is_reachable_but_peers_without_resources() -> None:
    spec = policy()
    assert spec["egress"] == [{"toEndpoints": [{"matchLabels": {f"k8s:{PEER}": "job"}}]}]
    assert spec["ingress"] == [{"fromEndpoints": [{"matchLabels": {f"k8s:{PEER}": "job"}}]}]


def test_a_declared_host_is_reachable_by_name_and_port_and_nothing_else_can_be_looked_up() -> None:
    dns, host, _ = policy(s3=S3)["egress"]
    assert dns["toPorts"][0]["rules"]["dns"] == [{"matchName": "s3.example.com"}]
    assert host == {
        "toFQDNs": [{"matchName": "s3.example.com"}],
        "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}],
    }


def test_an_address_needs_no_name() -> None:
    static = {
        "type": "external-service",
        "params": {"endpoints": {"db": "tcp://10.0.0.7:5432"}, "resolution": "static"},
    }
    rule, _ = policy(db=static)["egress"]
    assert rule["toCIDR"] == ["10.0.0.7/32"]
    assert policy(Facts(network="plain"), db=static)["egress"][0] == {
        "to": [{"ipBlock": {"cidr": "10.0.0.7/32"}}],
        "ports": [{"port": 5432, "protocol": "TCP"}],
    }


def test_without_cilium_a_host_is_refused_with_the_reason() -> None:
    [told] = problems(Facts(network="plain"), s3=S3)
    assert "s3.example.com:443" in told
    assert "cannot name hosts" in told


def test_egress_to_the_world_is_asked_for() -> None:
    """Defect 2 of the reference: `entity:world` without params was emitted and never asked for."""
    world = {"type": "external-service", "id": "entity:world"}
    requests = compiled(small(None, world=world)).requests
    asked = [request.id for _, request in requests if request.action == "AccessExternalEndpoint"]
    assert asked == ["entity:world"]


def test_a_connection_that_only_one_side_declares_does_not_exist() -> None:
    store = {"type": "service", "namespace": "data", "id": "features"}
    [told] = problems(features=store)
    assert "data/features does not let ml/job-work in" in told
    both = Facts(services={("data", "features"): SharedService(callers=("ml/job-work",))})
    dns, rule, _ = policy(both, features=store)["egress"]
    assert rule["toEndpoints"][0]["matchLabels"]["k8s:app.kubernetes.io/name"] == "features"
    assert dns["toPorts"][0]["rules"]["dns"] == [{"matchName": "features.data.svc.cluster.local"}]


def test_the_embedded_cluster_has_no_network_policies() -> None:
    result = compiled(small(None, s3=S3), facts=Facts(network="none", tetragon=False))
    assert {each["kind"] for each in result.support} == {"ServiceAccount"}

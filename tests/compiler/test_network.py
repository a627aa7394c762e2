"""What a workload may reach, and by which policy."""

from dataclasses import replace
from typing import Any, Literal

import pytest
import yaml

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.declared import declared
from muster.compiler.facts import SharedService
from muster.security.policies import Policies
from tests.workloads.batch.jobs import compiled, parsed, small

S3 = {"type": "external-service", "params": {"endpoints": {"s3": "https://s3.example.com"}}}
PEER = "muster.dev/peers"
PEER_NAMES = {"matchPattern": "*.job.ml.svc.cluster.local"}


def policy(facts: Facts | None = None, **resources: Any) -> Object:
    result = compiled(small(None, **resources), facts=facts)
    assert not result.problems, result.problems
    [found] = [each for each in result.support if each["kind"].endswith("NetworkPolicy")]
    spec: Object = found["spec"]
    return spec


def problems(facts: Facts | None = None, **resources: Any) -> list[str]:
    return [each.message for each in compiled(small(None, **resources), facts=facts).problems]


def test_nothing_is_reachable_but_peers_without_resources() -> None:
    spec = policy()
    dns, peers = spec["egress"]
    assert dns["toPorts"][0]["rules"]["dns"] == [PEER_NAMES], "such as MASTER_ADDR"
    assert peers == {"toEndpoints": [{"matchLabels": {f"k8s:{PEER}": "job"}}]}
    assert spec["ingress"] == [{"fromEndpoints": [{"matchLabels": {f"k8s:{PEER}": "job"}}]}]


def test_a_declared_host_is_reachable_by_name_and_port_and_nothing_else_can_be_looked_up() -> None:
    dns, host, _ = policy(s3=S3)["egress"]
    assert dns["toPorts"][0]["rules"]["dns"] == [{"matchName": "s3.example.com"}, PEER_NAMES]
    assert host == {
        "toFQDNs": [{"matchName": "s3.example.com"}],
        "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}],
    }


def test_an_address_needs_no_name() -> None:
    static = {
        "type": "external-service",
        "params": {"endpoints": {"db": "tcp://10.0.0.7:5432"}, "resolution": "static"},
    }
    dns, rule, _ = policy(db=static)["egress"]
    assert dns["toPorts"][0]["rules"]["dns"] == [PEER_NAMES]
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
    both = Facts(services={("data", "features"): SharedService(callers=("ml/job-work",), ports={80: 80})})
    dns, rule, _ = policy(both, features=store)["egress"]
    assert rule["toEndpoints"][0]["matchLabels"]["k8s:app.kubernetes.io/name"] == "features"
    assert dns["toPorts"][0]["rules"]["dns"] == [{"matchName": "features.data.svc.cluster.local"}, PEER_NAMES]


def test_the_embedded_cluster_has_no_network_policies() -> None:
    result = compiled(small(None, s3=S3), facts=Facts(network="none", tetragon=False))
    assert {each["kind"] for each in result.support} == {"ServiceAccount"}


BUCKETS = {"type": "external-service", "params": {"endpoints": {"s3": "https://*.s3.example.com"}}}


def test_hosts_that_differ_in_their_first_label_are_a_pattern_and_asked_for_as_one() -> None:
    dns, host, _ = policy(s3=BUCKETS)["egress"]
    assert dns["toPorts"][0]["rules"]["dns"][0] == {"matchPattern": "*.s3.example.com"}
    assert host["toFQDNs"] == [{"matchPattern": "*.s3.example.com"}]
    requests = compiled(small(None, s3=BUCKETS)).requests
    assert "*.s3.example.com:443" in {request.id for _, request in requests}


def test_a_service_is_reached_at_the_pods_and_ports_that_it_leads_to() -> None:
    store = {"type": "service", "namespace": "data", "id": "features", "params": {"port": 80}}
    shared = SharedService(("ml/*",), {"app": "store"}, {80: 8080})
    facts = Facts(services={("data", "features"): shared})
    rule = policy(facts, features=store)["egress"][1]
    assert rule["toEndpoints"] == [
        {"matchLabels": {"k8s:app": "store", "k8s:io.kubernetes.pod.namespace": "data"}}
    ]
    assert rule["toPorts"] == [{"ports": [{"port": "8080", "protocol": "TCP"}]}]
    plain = policy(replace(facts, network="plain"), features=store)["egress"]
    assert {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "data"}},
                "podSelector": {"matchLabels": {"app": "store"}},
            }
        ],
        "ports": [{"port": 8080, "protocol": "TCP"}],
    } in plain


@pytest.mark.parametrize("network", ["cilium", "plain", "none"])
def test_a_call_of_a_service_needs_a_port_that_it_has_and_is_asked_for(
    network: Literal["cilium", "plain", "none"],
) -> None:
    facts = Facts(services={("evil", "drop"): SharedService(("*",), {}, {443: 8443})}, network=network)

    def call(**params: Any) -> str:
        return small(None, d={"type": "service", "namespace": "evil", "id": "drop", "params": params})

    for params in ({}, {"port": 9999}, {"port": 8443}):
        [problem] = compiled(call(**params), facts=facts).problems
        assert "does not have for TCP; its ports: 443" in problem.message
    requests = compiled(call(port=443), facts=facts).requests
    [asked] = [request for _, request in requests if request.action == "AccessService"]
    assert asked.id == "evil/drop:443"
    assert asked.attributes == {"namespace": "evil", "name": "drop", "port": "443"}
    others = [
        f'permit(principal, action == Muster::Action::"{each.action}", resource);' for _, each in requests
    ]
    policies = Policies({"p": "\n".join(each for each in set(others) if "AccessService" not in each)})
    [denied] = compiled(call(port=443), facts=facts, policies=policies).problems
    assert "service access denied: 'evil/drop:443': no policy permits it" in denied.message


@pytest.mark.parametrize(
    ("caller", "asked"),
    [
        ({"namespace": "web", "id": "front"}, ["web/front"]),
        ({"namespace": "web", "id": "*"}, ["web/*"]),
        ({"namespace": "*", "id": "*"}, ["*/*"]),
        ({"namespace": "*", "id": "front"}, ["*/front"]),
        ({"id": "front"}, []),
        ({"id": "*"}, []),
    ],
)
def test_callers_of_other_namespaces_are_asked_for(caller: dict[str, Any], asked: list[str]) -> None:
    inbound = {"type": "service", "direction": "inbound", **caller}
    requests = compiled(small(None, c=inbound)).requests
    assert [each.id for _, each in requests if each.action == "AdmitCaller"] == asked


def test_both_protocols_of_a_port_are_asked_for() -> None:
    urls = {"t": "tcp://dns.example.com:53", "u": "udp://dns.example.com:53"}
    resource = {"type": "external-service", "params": {"endpoints": urls}}
    requests = compiled(small(None, d=resource)).requests
    asked = [each for _, each in requests if each.action == "AccessExternalEndpoint"]
    assert [each.id for each in asked] == ["dns.example.com:53", "dns.example.com:53/UDP"]
    assert [each.attributes["protocol"] for each in asked] == ["TCP", "UDP"]
    assert {each.path[-1] for each in asked} == {"d"}


def with_ports(**resources: Any) -> str:
    job = yaml.safe_load(small(None, **resources))
    service = {"ports": {"api": {"port": 80, "targetPort": 8080}}}
    job["spec"]["tasks"]["work"]["workload"]["service"] = service
    return yaml.safe_dump(job)


CALLERS: list[tuple[dict[str, Any], str, Object]] = [
    (
        {"type": "service", "namespace": "web", "id": "front", "direction": "inbound"},
        "web/front",
        {
            "matchLabels": {
                "k8s:app.kubernetes.io/name": "front",
                "k8s:io.kubernetes.pod.namespace": "web",
            }
        },
    ),
    (
        {"type": "service", "namespace": "web", "id": "*", "direction": "inbound"},
        "web/*",
        {"matchLabels": {"k8s:io.kubernetes.pod.namespace": "web"}},
    ),
    (
        {"type": "service", "namespace": "*", "id": "*", "direction": "inbound"},
        "*",
        {
            "matchLabels": {},
            "matchExpressions": [{"key": "k8s:io.kubernetes.pod.namespace", "operator": "Exists"}],
        },
    ),
]


@pytest.mark.parametrize(("caller", "listed", "selector"), CALLERS)
def test_a_workload_with_ports_is_a_service_that_lists_its_callers(
    caller: dict[str, Any], listed: str, selector: Object
) -> None:
    result = compiled(with_ports(caller=caller))
    assert not result.problems
    [service] = [each for each in result.support if each["kind"] == "Service"]
    assert service["metadata"]["annotations"] == {"muster.dev/allowed-callers": listed}
    assert service["spec"]["ports"] == [{"name": "api", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    [policy] = [each for each in result.support if each["kind"] == "CiliumNetworkPolicy"]
    rule = policy["spec"]["ingress"][0]
    assert rule["fromEndpoints"] == [selector]
    assert rule["toPorts"] == [{"ports": [{"port": "8080", "protocol": "TCP"}]}]


def test_the_two_halves_of_an_agreement_meet() -> None:
    callee = compiled(with_ports(caller={"type": "service", "id": "job-work", "direction": "inbound"}))
    facts = declared(Facts(), callee.support)
    caller = {"type": "service", "id": "job-work", "params": {"port": 80}}
    assert not compiled(small(None, api=caller), facts=facts).problems


def test_a_call_names_one_service() -> None:
    [told] = problems(any={"type": "service", "id": "*"})
    assert "only direction: inbound takes *" in told


HOSTILE = [
    ("https://1.2.3", "names no host"),
    ("https://999.1.1.1", "names no host"),
    ("https://*", "names no host"),
    ("https://*.com", "matches almost any host"),
    ("https://a.*.com", "names no host"),
    ("https://a b.com", "names no host"),
    ("tcp://[::1", "names no host"),
]


@pytest.mark.parametrize(("url", "message"), HOSTILE)
def test_an_endpoint_that_is_not_a_host_is_refused(url: str, message: str) -> None:
    external = {"type": "external-service", "params": {"endpoints": {"x": url}}}
    _, findings = parsed(small(None, x=external))
    assert message in str(findings)


def test_an_address_of_ipv6() -> None:
    external = {"type": "external-service", "params": {"endpoints": {"x": "tcp://[2001:db8::1]:443"}}}
    assert policy(x=external)["egress"][1]["toCIDR"] == ["2001:db8::1/128"]


def test_an_entity_is_one_of_ciliums() -> None:
    _, findings = parsed(small(None, x={"type": "external-service", "id": "entity:wrold"}))
    assert "there is no entity 'wrold'; did you mean world?" in str(findings[0])
    rule = policy(api={"type": "external-service", "id": "entity:kube-apiserver:443"})["egress"][1]
    assert rule["toEntities"] == ["kube-apiserver"]

"""What Istio enforces about a workload, and that it is asked for like everything else."""

from typing import Any

import pytest
import yaml

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.draft import shared
from muster.compiler.facts import SharedService
from muster.workloads.lattice.compiling import Compiled
from tests.workloads.lattice.jobs import compiled, small

MESH = Facts(istio=True, trust_domain="c1.local")
ONLY_MESH = Facts(istio=True, network="plain")
S3 = {"type": "external-service", "params": {"endpoints": {"s3": "https://s3.example.com"}}}
ME = "c1.local/ns/ml/sa/job-work"


def of(result: Compiled, kind: str) -> list[Object]:
    assert not result.problems, result.problems
    return [each["spec"] for each in result.support if each["kind"] == kind]


def training(**resources: Any) -> str:
    job = yaml.safe_load(small(None, **resources))
    job["spec"]["training"] = {"framework": "PyTorch", "coordinatorTask": "work"}
    return yaml.safe_dump(job)


def test_jobs_of_a_namespace_share_the_entry_of_a_host_and_have_policies_of_their_own() -> None:
    """Istio knows one ServiceEntry of a host per namespace."""
    job = yaml.safe_load(small(None, s3=S3))
    job["metadata"]["name"] = "other"
    one, other = (
        {(each["kind"], each["metadata"]["name"]): each for each in compiled(text, facts=MESH).support}
        for text in (small(None, s3=S3), yaml.safe_dump(job))
    )
    both = one.keys() & other.keys()
    assert sorted(kind for kind, _ in both) == ["AuthorizationPolicy", "ServiceEntry"]
    assert all(one[key] == other[key] and shared(one[key]) for key in both)
    assert not any(shared(one[key]) for key in one.keys() - both)


def test_a_host_is_a_service_entry_for_this_workload_alone() -> None:
    result = compiled(small(None, s3=S3), facts=MESH)
    [entry] = of(result, "ServiceEntry")
    assert entry == {
        "hosts": ["s3.example.com"],
        "exportTo": ["."],
        "location": "MESH_EXTERNAL",
        "ports": [{"number": 443, "name": "tls-443", "protocol": "TLS"}],
        "resolution": "DNS",
    }
    [name] = [each["metadata"]["name"] for each in result.support if each["kind"] == "ServiceEntry"]
    policy, nobody = [each for each in of(result, "AuthorizationPolicy") if "targetRefs" in each]
    target = {"group": "networking.istio.io", "kind": "ServiceEntry", "name": name}
    assert nobody == {"targetRefs": [target], "action": "ALLOW"}
    assert policy["targetRefs"] == [target]
    assert policy["rules"] == [
        {"from": [{"source": {"principals": [ME]}}], "to": [{"operation": {"ports": ["443"]}}]}
    ]


ENTRIES = [
    ("https://*.s3.example.com", {"hosts": ["*.s3.example.com"], "resolution": "NONE"}),
    ("tcp://10.0.0.7:5432", {"addresses": ["10.0.0.7"], "resolution": "STATIC"}),
    ("http://a.example.com", {"ports": [{"number": 80, "name": "http-80", "protocol": "HTTP"}]}),
]


@pytest.mark.parametrize(("url", "fields"), ENTRIES)
def test_other_endpoints(url: str, fields: Object) -> None:
    external = {"type": "external-service", "params": {"endpoints": {"x": url}}}
    [entry] = of(compiled(small(None, x=external), facts=MESH), "ServiceEntry")
    assert {key: entry[key] for key in fields} == fields


@pytest.mark.parametrize("url", ["https://s3.example.com", "tcp://10.0.0.7:5432", "https://*.example.com"])
def test_a_service_entry_is_asked_for_as_the_network_policy_is(url: str) -> None:
    text = small(None, x={"type": "external-service", "params": {"endpoints": {"x": url}}})
    by_policy = {request.id for _, request in compiled(text).requests}
    by_mesh = {request.id for _, request in compiled(text, facts=Facts(istio=True, network="none")).requests}
    assert by_mesh == by_policy


def test_only_callers_and_the_pods_of_the_job_are_let_in() -> None:
    caller = {"type": "service", "namespace": "web", "id": "front", "direction": "inbound"}
    [policy] = of(compiled(small(None, front=caller), facts=MESH), "AuthorizationPolicy")
    assert policy["selector"] == {"matchLabels": {"app.kubernetes.io/name": "job-work"}}
    principals = [rule["from"][0]["source"]["principals"] for rule in policy["rules"]]
    assert principals == [["c1.local/ns/web/sa/front"], [ME]]


CALLERS = [
    (("web", "*"), "c1.local/ns/web/sa/*"),
    (("*", "front"), "*/sa/front"),
    (("*", "*"), "c1.local/*"),
]


@pytest.mark.parametrize(("who", "principal"), CALLERS)
def test_several_callers_are_a_pattern_of_identities(who: tuple[str, str], principal: str) -> None:
    caller = {"type": "service", "namespace": who[0], "id": who[1], "direction": "inbound"}
    [policy] = of(compiled(small(None, x=caller), facts=MESH), "AuthorizationPolicy")
    assert policy["rules"][0]["from"] == [{"source": {"principals": [principal]}}]


@pytest.mark.parametrize("facts", [MESH, ONLY_MESH])
def test_the_meshs_own_port_is_open_between_members_without_a_question(facts: Facts) -> None:
    result = compiled(small(), facts=facts)
    [spec] = of(result, "CiliumNetworkPolicy" if facts is MESH else "NetworkPolicy")
    for direction in ("egress", "ingress"):
        assert "15008" in str(spec[direction][-1])
    assert not [request for _, request in result.requests if request.action == "AccessExternalEndpoint"]


def test_with_a_mesh_hosts_need_no_cilium() -> None:
    result = compiled(small(None, s3=S3), facts=ONLY_MESH)
    assert [each["hosts"] for each in of(result, "ServiceEntry")] == [["s3.example.com"]]
    udp = {"type": "external-service", "params": {"endpoints": {"x": "udp://log.example.com:514"}}}
    [told] = compiled(small(None, x=udp), facts=ONLY_MESH).problems
    assert "Istio takes only TCP to hosts" in told.error.message


def test_pods_of_a_job_with_training_are_outside_of_the_mesh() -> None:
    result = compiled(training(s3=S3), facts=MESH)
    assert not of(result, "AuthorizationPolicy")
    assert not of(result, "ServiceEntry")
    pod = result.jobs[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pod["metadata"]["labels"]["istio.io/dataplane-mode"] == "none"
    assert "15008" not in str(of(result, "CiliumNetworkPolicy"))
    [told] = compiled(training(s3=S3), facts=ONLY_MESH).problems
    assert "cannot name hosts" in told.error.message


def test_a_service_cannot_identify_callers_outside_of_the_mesh() -> None:
    services = {("ml", "features"): SharedService(("ml/*",))}
    call = {"features": {"type": "service"}}
    [told] = compiled(training(**call), facts=Facts(istio=True, services=services)).problems
    assert "outside of the mesh" in told.error.message
    assert not compiled(training(**call), facts=Facts(services=services)).problems

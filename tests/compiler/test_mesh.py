"""What Istio enforces about a workload, and that it is asked for like everything else."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.kinds import EMITTED
from muster.compiler import Facts
from muster.compiler.draft import joined, shared
from muster.compiler.facts import SharedService
from muster.effects import Create
from muster.effects.execute import execute
from muster.kube.errors import AlreadyExists
from muster.workloads.batch.compiling import Compiled
from tests.controllers.memory import START, Memory, MemoryClient
from tests.tiers import examples
from tests.workloads.batch.jobs import compiled, small

MESH = Facts(istio=True, trust_domain="c1.local")
ONLY_MESH = Facts(istio=True, network="plain")
S3 = {"type": "external-service", "params": {"endpoints": {"s3": "https://s3.example.com"}}}
[SERVICE_ENTRY] = [each for each in EMITTED if each.kind == "ServiceEntry"]
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


def named(**tasks: list[str]) -> str:
    """A job of these tasks, each with the URLs that it connects to."""
    job = yaml.safe_load(small())
    task = job["spec"]["tasks"]["work"]
    job["spec"]["tasks"] = {
        name: {
            "workload": {
                **task["workload"],
                "resources": {
                    f"to-{number}": {"type": "external-service", "params": {"endpoints": {"x": url}}}
                    for number, url in enumerate(urls)
                },
            }
        }
        for name, urls in tasks.items()
    }
    return yaml.safe_dump(job)


def ports(entry: Object) -> list[tuple[int, str]]:
    return [(each["number"], each["protocol"]) for each in entry["spec"]["ports"]]


def test_tasks_of_a_job_share_the_entry_of_a_host_with_the_ports_of_both() -> None:
    result = compiled(named(a=["https://x.com"], b=["https://x.com:8443", "http://x.com"]), facts=MESH)
    assert not result.problems
    [entry] = [each for each in result.support if each["kind"] == "ServiceEntry"]
    assert ports(entry) == [(80, "HTTP"), (443, "TLS"), (8443, "TLS")]
    assert {(who.task, request.id) for who, request in result.requests if "x.com" in request.id} == {
        *(("a", "x.com:443"), ("b", "x.com:8443"), ("b", "x.com:80"))
    }
    own = {
        str(each["rules"][0]["from"][0]["source"]["principals"]): each["rules"][0]["to"]
        for each in of(result, "AuthorizationPolicy")
        if "targetRefs" in each and "rules" in each
    }
    assert own == {
        "['c1.local/ns/ml/sa/job-a']": [{"operation": {"ports": ["443"]}}],
        "['c1.local/ns/ml/sa/job-b']": [{"operation": {"ports": ["80", "8443"]}}],
    }


@pytest.mark.parametrize(
    "text",
    [named(a=["https://x.com"], b=["tcp://x.com:443"]), named(a=["https://x.com", "tcp://x.com:443"])],
    ids=["two tasks", "one task"],
)
def test_a_port_of_a_host_has_one_protocol(text: str) -> None:
    """A second protocol would be ignored by Istio, or would turn off the check of names on this port."""
    [told] = compiled(text, facts=MESH).problems
    assert "x.com" in told.message
    assert "port 443 is declared as" in told.message
    assert {"TCP", "TLS"} <= set(told.message.replace(";", "").split())
    assert not compiled(text).problems


URLS = st.builds(
    "{}://{}:{}".format,
    st.sampled_from(["https", "http", "tcp"]),
    st.sampled_from(["a.example.com", "b.example.com", "10.0.0.7"]),
    st.sampled_from([80, 443, 8443]),
)


@settings(max_examples=examples(40), deadline=None)
@given(jobs=st.lists(st.lists(URLS, min_size=1, max_size=3), min_size=1, max_size=4))
async def test_each_job_of_a_namespace_reaches_what_it_declares_or_is_refused(
    jobs: list[list[str]],
) -> None:
    """Jobs are applied one after the other. An entry has each port once, and loses none."""
    client = MemoryClient(Memory())
    for number, urls in enumerate(jobs):
        result = compiled(named(work=urls), facts=MESH)
        shared_ones = [each for each in result.support if each["kind"] == "ServiceEntry"]
        before = {name: ports(body) for (_, name), body in client.memory.objects.items()}
        run = {"apiVersion": "v1", "kind": "Pod", "name": f"r{number}", "uid": f"r{number}"}
        for made in shared_ones:
            body = {**made, "metadata": {**made["metadata"], "ownerReferences": [run]}}
            effect = Create(SERVICE_ENTRY, "ml", body, join=joined)
            known = dict(before.get(f"ml/{made['metadata']['name']}", ()))
            if any(known.get(port, protocol) != protocol for port, protocol in ports(made)):
                with pytest.raises(AlreadyExists, match="one protocol"):
                    await execute(client, effect, START)
                continue
            await execute(client, effect, START)
            entry = client.memory.json(SERVICE_ENTRY, f"ml/{made['metadata']['name']}")
            assert set(ports(made)) <= set(ports(entry))
            assert run["uid"] in [each["uid"] for each in entry["metadata"]["ownerReferences"]]
        for (_, name), body in client.memory.objects.items():
            assert set(before.get(name, ())) <= set(ports(body))
            assert [number for number, _ in ports(body)] == sorted({number for number, _ in ports(body)})


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


def test_an_entry_of_another_host_is_not_shared() -> None:
    """Names are short hashes: a job could choose a host whose name is that of another job's entry."""
    [entry] = [
        each for each in compiled(small(None, s3=S3), facts=MESH).support if each["kind"] == "ServiceEntry"
    ]
    others: list[Object] = [{**entry, "spec": {**entry["spec"], "hosts": ["evil.com"]}}, {}, {"spec": []}]
    for known in others:
        with pytest.raises(ValueError, match="is for another host"):
            joined(known, entry)
    strange = {"spec": {**entry["spec"], "ports": [{"number": []}, 1, {"number": 80, "name": "http-80"}]}}
    assert [each["number"] for each in joined(strange, entry)["ports"]] == [80, 443]
    assert joined(entry, entry) == {}


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
    assert "Istio takes only TCP to hosts" in told.message


def test_pods_of_a_job_with_training_are_outside_of_the_mesh() -> None:
    result = compiled(training(s3=S3), facts=MESH)
    assert not of(result, "AuthorizationPolicy")
    assert not of(result, "ServiceEntry")
    pod = result.jobs[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pod["metadata"]["labels"]["istio.io/dataplane-mode"] == "none"
    assert "15008" not in str(of(result, "CiliumNetworkPolicy"))
    [told] = compiled(training(s3=S3), facts=ONLY_MESH).problems
    assert "cannot name hosts" in told.message


def test_a_service_cannot_identify_callers_outside_of_the_mesh() -> None:
    services = {("ml", "features"): SharedService(("ml/*",), ports={80: 80})}
    call = {"features": {"type": "service"}}
    [told] = compiled(training(**call), facts=Facts(istio=True, services=services)).problems
    assert "outside of the mesh" in told.message
    assert not compiled(training(**call), facts=Facts(services=services)).problems

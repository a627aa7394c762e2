"""Each type of resource, and each of its fields, with what it becomes."""

from typing import Any, Final

import pytest
import yaml

from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.platform import Platform
from tests.workloads.batch.jobs import changed, compiled, small
from tests.workloads.batch.test_rows import FACTS, at


def external(url: str) -> dict[str, Any]:
    return {"type": "external-service", "params": {"endpoints": {"x": url}}}


#: row, resource, kind of the object that it becomes, path there, value
RESOURCE_ROWS: Final[list[tuple[str, dict[str, Any], str, str, Any]]] = [
    (
        "service",
        {"type": "service", "namespace": "data", "id": "db", "params": {"port": 5432}},
        "CiliumNetworkPolicy",
        "spec.egress.1.toPorts.0.ports.0.port",
        "5432",
    ),
    (
        "service, both: out",
        {"type": "service", "namespace": "data", "id": "db", "direction": "both"},
        "CiliumNetworkPolicy",
        "spec.egress.1.toEndpoints.0.matchLabels",
        {"k8s:app.kubernetes.io/name": "db", "k8s:io.kubernetes.pod.namespace": "data"},
    ),
    (
        "service, both: in",
        {"type": "service", "namespace": "data", "id": "db", "direction": "both"},
        "CiliumNetworkPolicy",
        "spec.ingress.0.fromEndpoints.0.matchLabels",
        {"k8s:app.kubernetes.io/name": "db", "k8s:io.kubernetes.pod.namespace": "data"},
    ),
    (
        "service, inbound from all",
        {"type": "service", "id": "*", "direction": "inbound"},
        "CiliumNetworkPolicy",
        "spec.ingress.0.fromEndpoints.0.matchLabels",
        {"k8s:io.kubernetes.pod.namespace": "ml"},
    ),
    *(
        (
            f"external-service: {url}",
            {"type": "external-service", "params": {"endpoints": {"x": url}}},
            "CiliumNetworkPolicy",
            "spec.egress.1.toPorts.0.ports.0",
            {"port": port, "protocol": protocol},
        )
        for url, port, protocol in (
            ("http://a.example.com", "80", "TCP"),
            ("https://a.example.com", "443", "TCP"),
            ("grpc://a.example.com", "443", "TCP"),
            ("tcp://a.example.com:5432", "5432", "TCP"),
            ("udp://a.example.com:53", "53", "UDP"),
            ("a.example.com:8443", "8443", "TCP"),
        )
    ),
    (
        "external-service: an entity",
        {"type": "external-service", "id": "entity:world:443"},
        "CiliumNetworkPolicy",
        "spec.egress.1",
        {"toEntities": ["world"], "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}]},
    ),
    (
        "external-service: resolution static",
        {
            "type": "external-service",
            "params": {"endpoints": {"x": "tcp://10.0.0.7:80"}, "resolution": "static"},
        },
        "CiliumNetworkPolicy",
        "spec.egress.1.toCIDR",
        ["10.0.0.7/32"],
    ),
    (
        "secret: provider",
        {"type": "secret", "params": {"provider": "vault", "keys": ["k"]}},
        "ExternalSecret",
        "spec.secretStoreRef",
        {"name": "vault", "kind": "ClusterSecretStore"},
    ),
    (
        "secret: id and keys",
        {"type": "secret", "id": "apps/db", "params": {"keys": ["k"]}},
        "ExternalSecret",
        "spec.data",
        [{"secretKey": "k", "remoteRef": {"key": "apps/db", "property": "k"}}],
    ),
    (
        "secret: the default id",
        {"type": "secret", "params": {"keys": ["k"]}},
        "ExternalSecret",
        "spec.data.0.remoteRef.key",
        "ml/x",
    ),
    (
        "secret: no keys",
        {"type": "secret"},
        "ExternalSecret",
        "spec.dataFrom",
        [{"extract": {"key": "ml/x"}}],
    ),
    (
        "secret: refreshInterval",
        {"type": "secret", "params": {"refreshInterval": "5m"}},
        "ExternalSecret",
        "spec.refreshInterval",
        "5m",
    ),
    (
        "secret: secretType",
        {"type": "secret", "params": {"keys": ["k"], "secretType": "kubernetes.io/tls"}},
        "ExternalSecret",
        "spec.target.template",
        {"type": "kubernetes.io/tls"},
    ),
    *(
        (
            f"volume: {name}",
            {"type": "volume", "params": {"size": "1Gi", **params}},
            "PersistentVolumeClaim",
            path,
            value,
        )
        for name, params, path, value in (
            ("size", {}, "spec.resources.requests.storage", "1Gi"),
            ("storageClass", {"storageClass": "fast"}, "spec.storageClassName", "fast"),
            ("accessMode", {"accessMode": "ReadWriteMany"}, "spec.accessModes", ["ReadWriteMany"]),
            (
                "allowedConsumers",
                {"allowedConsumers": ["ml/a", "web/*"]},
                "metadata.annotations",
                {"muster.dev/allowed-consumers": "ml/a,web/*"},
            ),
        )
    ),
    (
        "class and metadata are accepted",
        {"type": "settings", "class": "large", "metadata": {"a": "b"}, "params": {"a": {"b": "c"}}},
        "ConfigMap",
        "data",
        {"V": "c"},
    ),
    (
        "other types pass through",
        {"type": "settings", "params": {"a": {"b": 3}}},
        "ConfigMap",
        "data.V",
        "3",
    ),
]


@pytest.mark.parametrize(
    ("row", "resource", "kind", "path", "value"), RESOURCE_ROWS, ids=[each[0] for each in RESOURCE_ROWS]
)
def test_a_resource(row: str, resource: dict[str, Any], kind: str, path: str, value: Any) -> None:
    uses: dict[str, dict[str, Any]] = {
        "secret": {"envFrom": [{"secretResource": "x"}]},
        "volume": {"volumes": {"/x": {"source": "x"}}},
        "settings": {"variables": {"V": "${resources.x.a.b}"}},
    }
    result = compiled(small(uses.get(resource["type"]), x=resource), facts=FACTS)
    assert not result.problems, result.problems
    [made] = [each for each in result.support if each["kind"] == kind]
    assert at(made, path) == value


OUTPUTS: Final[list[tuple[dict[str, Any], str, str]]] = [
    (external("https://s3.example.com"), "host", "s3.example.com"),
    (external("https://s3.example.com"), "port", "443"),
    (external("https://s3.example.com/in"), "url", "https://s3.example.com/in"),
    (external("db.example.com:5432"), "x.url", "db.example.com:5432"),
    ({"type": "service", "namespace": "data", "id": "db"}, "host", "db.data.svc"),
    ({"type": "service", "namespace": "data", "id": "db"}, "port", "80"),
    ({"type": "service", "namespace": "data", "id": "db"}, "url", "http://db.data.svc:80"),
    (
        {"type": "service", "namespace": "data", "id": "db", "params": {"port": 9000}},
        "url",
        "http://db.data.svc:9000",
    ),
    ({"type": "gpu", "params": {"count": 4, "model": "L4"}}, "count", "4"),
    ({"type": "gpu", "params": {"count": 4, "model": "L4"}}, "model", "L4"),
    ({"type": "settings", "params": {"on": True}}, "on", "true"),
]


@pytest.mark.parametrize(("resource", "output", "value"), OUTPUTS)
def test_what_a_placeholder_can_name(resource: dict[str, Any], output: str, value: str) -> None:
    """Alone, and as a part of a text, which is another way through the compiler."""
    variables = {"V": f"${{resources.x.{output}}}", "W": f"<${{resources.x.{output}}}>"}
    result = compiled(small({"variables": variables}, x=resource), facts=FACTS)
    assert not result.problems, result.problems
    [config] = [each for each in result.support if each["kind"] == "ConfigMap"]
    assert config["data"] == {"V": value, "W": f"<{value}>"}


VOLUME: Final = {"volumes": {"/x": {"source": "x"}}}
WHOLE: Final = {"type": "secret", "params": {"keys": ["a", "b"]}}
REFUSED: Final[list[tuple[str, dict[str, Any], dict[str, Any], str]]] = [
    ("another output", {"variables": {"V": "${resources.x.path}"}}, external("http://a.b"), ".host, "),
    ("a volume's output", {"variables": {"V": "${resources.x.id}"}}, {"type": "volume"}, "mount it instead"),
    ("a volume of nobody", VOLUME, {"type": "volume"}, "a volume has a size"),
    (
        "a volume of another namespace",
        VOLUME,
        {"type": "volume", "id": "sets", "namespace": "web"},
        "of its own namespace only",
    ),
    ("a directory of a secret", VOLUME, WHOLE, "x is not a declared volume"),
    (
        "variables of no secret",
        {"envFrom": [{"secretResource": "x"}]},
        external("http://a.b"),
        "not a declared",
    ),
    ("a placeholder in nothing", {"variables": {"V": "${resources.x}"}}, WHOLE, "secret x has no key ''"),
]


@pytest.mark.parametrize(
    ("row", "container", "resource", "message"), REFUSED, ids=[each[0] for each in REFUSED]
)
def test_a_use_that_is_none(
    row: str, container: dict[str, Any], resource: dict[str, Any], message: str
) -> None:
    problems = compiled(small(container, x=resource), facts=FACTS).problems
    assert [each for each in problems if message in each.message], problems


def test_a_host_that_is_only_inbound_is_not_reachable_and_not_asked_for() -> None:
    result = compiled(small(None, x=external("https://s3.example.com") | {"direction": "inbound"}))
    assert "s3.example.com" not in str(result.support)
    assert not [each for _, each in result.requests if each.action == "AccessExternalEndpoint"]


def test_gpus_that_a_container_requests_itself_stay() -> None:
    own = {"resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}}
    result = compiled(small(own, x={"type": "gpu", "params": {"count": 8}}))
    assert "'nvidia.com/gpu': '1'" in str(result.jobs)
    assert "'nvidia.com/gpu': '8'" not in str(result.jobs)


def test_a_port_of_a_service_is_that_of_its_pods_unless_they_differ() -> None:
    job = yaml.safe_load(small())
    ports = {"a": {"port": 53, "protocol": "UDP"}, "b": {"port": 80, "targetPort": 8080}}
    job["spec"]["tasks"]["work"]["workload"]["service"] = {"ports": ports}
    [service] = [each for each in compiled(yaml.safe_dump(job)).support if each["kind"] == "Service"]
    assert service["spec"]["ports"] == [
        {"name": "a", "port": 53, "targetPort": 53, "protocol": "UDP"},
        {"name": "b", "port": 80, "targetPort": 8080, "protocol": "TCP"},
    ]


@pytest.mark.parametrize(("local", "refused"), [(True, True), (False, False)])
def test_a_port_that_the_embedded_cluster_cannot_translate_is_refused_with_its_line(
    local: bool, refused: bool
) -> None:
    ports = {"web": {"port": 80, "targetPort": 8080}, "same": {"port": 81}}
    text = changed(small(), {"spec/tasks/work/workload/service": {"ports": ports}})
    options = Options(namespace="ml", local=local, platform=Platform())
    if not refused:
        assert load("job.yaml", options, text=text).objects
        return
    with pytest.raises(JobFileError) as told:
        load("job.yaml", options, text=text)
    (finding,) = told.value.findings
    assert text.splitlines()[finding.line - 1].strip() == "targetPort: 8080"
    assert "translates no ports" in finding.message

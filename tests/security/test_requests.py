"""What is asked for, and by which ids and attributes: those that a policy can name."""

from typing import Any, Final

import pytest

from muster.compiler import Facts
from muster.compiler.facts import SharedVolume
from muster.security.policies import Policies
from muster.security.requests import Request
from tests.workloads.batch.jobs import TRAINING, changed, compiled, small

TASK: Final = "spec/tasks/workers"
CONTAINER: Final = f"{TASK}/workload/containers/trainer"


def of_pod(field: str, value: object = True) -> dict[str, Any]:
    return {f"{TASK}/{field}": value}


def of_container(**security: Any) -> dict[str, Any]:
    return {f"{CONTAINER}/security": {"runAsUser": 65534, **security}}


RETAINED: Final = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
#: changes of the job, what is asked with OverrideSecurity, category
OVERRIDES: Final[list[tuple[dict[str, Any], tuple[str, ...], str]]] = [
    (of_pod("hostNetwork"), ("hostNetwork",), "pod"),
    (of_pod("shareProcessNamespace"), ("shareProcessNamespace",), "pod"),
    (of_pod("automountServiceAccountToken"), ("automountServiceAccountToken",), "pod"),
    (of_pod("sysctls", {"kernel.msgmax": "1"}), ("sysctl:kernel.msgmax",), "pod"),
    (of_container(privileged=True), ("privileged", "allowPrivilegeEscalation"), "container"),
    (of_container(runAsUser=0), ("runAsRoot",), "container"),
    (of_container(runAsNonRoot=False), ("runAsRoot",), "container"),
    (of_container(runAsGroup=0), ("runAsRootGroup",), "container"),
    (of_container(readOnlyRootFilesystem=False), ("readWriteRootFilesystem",), "container"),
    (of_container(allowPrivilegeEscalation=True), ("allowPrivilegeEscalation",), "container"),
    (of_container(seccompProfile="Unconfined"), ("seccomp:Unconfined",), "profile"),
    (
        of_container(seccompProfile="Localhost", seccompLocalhostProfile="a.json"),
        ("seccomp:Localhost:a.json",),
        "profile",
    ),
    (of_container(apparmorProfile="Unconfined"), ("apparmor:Unconfined",), "profile"),
    (
        of_container(apparmorProfile="Localhost", apparmorLocalhostProfile="mine"),
        ("apparmor:Localhost:mine",),
        "profile",
    ),
    (of_container(capabilities=["NET_ADMIN"]), ("capability:NET_ADMIN",), "capability"),
    (of_container(capabilities=["NET_BIND_SERVICE"]), (), ""),
    (of_container(dropCapabilities=[]), tuple(f"capability:{each}" for each in RETAINED), "capability"),
    (
        of_container(dropCapabilities=["NET_RAW"]),
        tuple(f"capability:{each}" for each in RETAINED if each != "NET_RAW"),
        "capability",
    ),
    (of_container(allowedBinaries=["/bin/tar"]), ("allowedBinary:/bin/tar",), "binary"),
    (of_container(allowedBinaries=["*"]), ("allowedBinary:*",), "binary"),
]


@pytest.mark.parametrize(
    ("change", "ids", "category"), OVERRIDES, ids=[f"{n}-{each[1][:1]}" for n, each in enumerate(OVERRIDES)]
)
def test_an_override_is_asked_for_by_its_id(
    change: dict[str, Any], ids: tuple[str, ...], category: str
) -> None:
    base = {f"{CONTAINER}/command": ["/bin/train"], f"{CONTAINER}/security": {}}
    requests = compiled(changed(TRAINING, base | change)).requests
    asked = [request for _, request in requests if request.action == "OverrideSecurity"]
    assert sorted(request.id for request in asked) == sorted(ids)
    assert {request.attributes["category"] for request in asked} == ({category} if ids else set())
    assert {request.attributes["override"] for request in asked} == set(ids)


def asked(action: str, text: str, facts: Facts | None = None) -> list[Request]:
    """The requests of one action, each once."""
    found = [request for _, request in compiled(text, facts=facts).requests if request.action == action]
    return list(dict.fromkeys(found))


def external(url: str) -> dict[str, Any]:
    return {"type": "external-service", "params": {"endpoints": {"x": url}}}


def gpu(**params: Any) -> dict[str, Any]:
    return {"type": "gpu", "params": params}


DIGEST: Final = "sha256:" + "a" * 64
#: action, container, resources, ids, and attributes of the first: everything that a policy can test
ENTITIES: Final[list[tuple[str, dict[str, Any], dict[str, Any], list[str], dict[str, str]]]] = [
    (
        "DeployImage",
        {"image": f"GHCR.io/acme/app:1.2@{DIGEST}"},
        {},
        [f"ghcr.io/acme/app@{DIGEST}"],
        {"registry": "ghcr.io", "name": "acme/app", "tag": "", "digest": DIGEST},
    ),
    (
        "AllowTagReference",
        {"image": "ghcr.io/acme/app:1.2"},
        {},
        ["ghcr.io/acme/app:1.2"],
        {"registry": "ghcr.io", "name": "acme/app", "tag": "1.2", "digest": ""},
    ),
    ("AllowTagReference", {"image": f"ghcr.io/acme/app@{DIGEST}"}, {}, [], {}),
    (
        "AccessSecret",
        {"envFrom": [{"secretResource": "db"}]},
        {"db": {"type": "secret", "id": "apps/db", "params": {"provider": "vault"}}},
        ["vault:apps/db"],
        {"provider": "vault", "path": "apps/db"},
    ),
    (
        "AccessExternalEndpoint",
        {},
        {"x": external("https://s3.example.com")},
        ["s3.example.com:443"],
        {"host": "s3.example.com", "port": "443", "protocol": "TCP"},
    ),
    (
        "AccessExternalEndpoint",
        {},
        {"x": external("udp://10.0.0.7:514")},
        ["10.0.0.7:514/UDP"],
        {"host": "10.0.0.7", "port": "514", "protocol": "UDP"},
    ),
    (
        "AccessExternalEndpoint",
        {},
        {"x": {"type": "external-service", "id": "entity:world"}},
        ["entity:world"],
        {"host": "entity:world", "port": "*", "protocol": "*"},
    ),
    (
        "TolerateTaint",
        {},
        {"g": gpu(tolerations=[{"operator": "Exists"}])},
        ["*:*"],
        {"key": "*", "value": "*", "effect": "*"},
    ),
    (
        "TolerateTaint",
        {},
        {
            "g": gpu(
                tolerations=[{"key": "pool", "value": "spot", "effect": "NoExecute", "tolerationSeconds": 5}]
            )
        },
        ["pool=spot:NoExecute"],
        {"key": "pool", "value": "spot", "effect": "NoExecute"},
    ),
    (
        "TolerateTaint",
        {},
        {"g": gpu(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])},
        [],
        {},
    ),
    ("TolerateTaint", {}, {"g": gpu()}, [], {}),
    ("UseRuntimeClass", {}, {"g": {**gpu(), "class": "kata"}}, ["kata"], {}),
    (
        "AccessVolume",
        {"volumes": {"/data": {"source": "sets"}}},
        {"sets": {"type": "volume", "id": "sets"}},
        ["ml/sets"],
        {"namespace": "ml", "id": "sets"},
    ),
]


@pytest.mark.parametrize(("action", "container", "resources", "ids", "attributes"), ENTITIES)
def test_what_a_policy_can_test(
    action: str,
    container: dict[str, Any],
    resources: dict[str, Any],
    ids: list[str],
    attributes: dict[str, str],
) -> None:
    facts = Facts(volumes={("ml", "sets"): SharedVolume("vol-sets", ("*",))})
    found = asked(action, small(container, **resources), facts)
    assert [each.id for each in found] == ids
    assert [each.attributes for each in found] == ([attributes] if ids else [])


def test_each_task_is_a_principal_with_what_a_policy_can_test() -> None:
    text = changed(TRAINING, {f"{TASK}/hostNetwork": True})
    conditions = {
        "namespace": "ml",
        "name": "training-run-42-workers",
        "job": "training-run-42",
        "task": "workers",
        "kind": "BatchJob",
        "queue": "ml-training",
    }
    every = " && ".join(f'principal.{name} == "{value}"' for name, value in conditions.items())
    assert not compiled(text, policies=permitted(every)).problems
    for name in conditions:
        assert compiled(text, policies=permitted(f'principal.{name} == "x"')).problems
    one = 'principal == Muster::Workload::"ml/training-run-42/workers"'
    assert not compiled(text, policies=permitted(one)).problems


def permitted(condition: str) -> Policies:
    return Policies({"p": f"permit (principal, action, resource) when {{ {condition} }};"})


TOLD: Final[list[tuple[dict[str, Any], str, str]]] = [
    (
        {f"{CONTAINER}/security/privileged": True},
        "security override denied: 'privileged' (container trainer): no policy permits it",
        "security.privileged",
    ),
    (
        {f"{TASK}/hostNetwork": True},
        "security override denied: 'hostNetwork': no policy permits it",
        "hostNetwork",
    ),
    (
        {},
        (
            "external endpoint access denied: 's3.us-east-1.amazonaws.com:443' (s3-endpoint): "
            "no policy permits it"
        ),
        "s3-endpoint",
    ),
    ({}, "secret access denied: 'default:ml/training-data': no policy permits it", "training-data"),
    ({}, "queue denied: 'ml-training': no policy permits it", "queue"),
    (
        {f"{CONTAINER}/image": "registry.example.com/trainer:1"},
        "image tag denied: 'registry.example.com/trainer:1': no policy permits it",
        "image",
    ),
]


@pytest.mark.parametrize(("change", "message", "field"), TOLD, ids=[each[2] for each in TOLD])
def test_a_denial_says_what_where_and_why(change: dict[str, Any], message: str, field: str) -> None:
    problems = compiled(changed(TRAINING, change), policies=Policies()).problems
    [path] = [each.path for each in problems if each.message == message]
    assert ".".join(map(str, path)).endswith(field)

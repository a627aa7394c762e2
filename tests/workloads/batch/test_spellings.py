"""Whatever the spelling: a job is refused, or its requests and its objects have the one spelling."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.compiler import Facts
from muster.compiler.facts import SharedVolume
from muster.workloads.batch.compiling import Compiled, compile_job
from muster.workloads.batch.targets import TARGETS
from tests.workloads.batch.jobs import changed, compiled, parsed, small

DIGEST: Final = "sha256:" + "a" * 64
FACTS: Final = Facts(volumes={("ml", "sets"): SharedVolume("vol-sets", ("*",))})
WORK: Final = "spec/tasks/work"


def endpoint(url: str) -> str:
    return small(None, x={"type": "external-service", "params": {"endpoints": {"e": url}}})


def secret(path: str) -> str:
    uses = {"variables": {"V": "${resources.x.k}"}}
    return small(uses, x={"type": "secret", "id": path, "params": {"keys": ["k"]}})


def security(**fields: Any) -> str:
    return small({"security": fields})


def mounted(at: str) -> str:
    return small({"volumes": {at: {"medium": "Memory"}}})


def filed(at: str) -> str:
    return small({"files": {at: {"content": "x"}}})


#: jobs that are one job but for a spelling
ALIKE: Final[dict[str, list[str]]] = {
    "image": [
        small({"image": each})
        for each in (
            f"ghcr.io/acme/app@{DIGEST}",
            f"GHCR.io:443/acme/app@{DIGEST}",
            f"ghcr.io:0443/acme/app:v1@{DIGEST}",
        )
    ],
    "image of Docker": [
        small({"image": each})
        for each in ("nginx", "docker.io/nginx:latest", "index.docker.io/library/nginx")
    ],
    "capabilities": [security(capabilities=[each]) for each in ("SYS_ADMIN", "sys_admin", "CAP_SYS_ADMIN")],
    "all capabilities": [security(capabilities=each) for each in (["ALL"], ["all"], ["kill", "all"])],
    "dropped": [security(dropCapabilities=each) for each in (["ALL"], ["all"], ["All", "KILL"])],
    "host": [endpoint(each) for each in ("https://s3.example.com/a", "https://S3.EXAMPLE.com/a")],
    "port": [endpoint(each) for each in ("tcp://s3.example.com:80", "tcp://s3.example.com:0080")],
    "address": [endpoint(each) for each in ("tcp://10.0.0.7:80", "tcp://[::ffff:10.0.0.7]:80")],
    "address of IPv6": [endpoint(each) for each in ("tcp://[2001:db8::1]:80", "tcp://[2001:DB8:0::0:1]:80")],
    "mount": [mounted(each) for each in ("/data", "/data/", "//data", "/./data")],
    "binary": [security(allowedBinaries=[each]) for each in ("/bin/sh", "//bin/./sh")],
    "sysctl": [
        changed(small(), {f"{WORK}/sysctls": {each: "1"}})
        for each in ("net.core.somaxconn", "net/core/somaxconn")
    ],
    "profile": [
        security(seccompProfile="Localhost", seccompLocalhostProfile=each)
        for each in ("a/b.json", "./a//b.json")
    ],
    "command": [small({"command": [each]}) for each in ("/bin/app", "/bin//app")],
}


def decided(text: str) -> tuple[list[Any], bytes]:
    """What is asked for a job, and its objects, but for names that only hash where a field is written."""
    found = compiled(text, facts=FACTS)
    assert not found.problems, found.problems
    asked = [(each.action, each.id, each.attributes) for _, each in found.requests]
    return asked, msgspec.json.encode([*found.support, *found.jobs])


@pytest.mark.parametrize("kind", [each for each in ALIKE if each != "mount"])
def test_spellings_of_one_job_are_asked_for_and_emitted_alike(kind: str) -> None:
    first, *others = map(decided, ALIKE[kind])
    assert all(each == first for each in others)


def test_spellings_of_a_mount_are_one_mount() -> None:
    both = small({"volumes": {"/data": {}, "//data/": {}}})
    assert ["is mounted twice" in each.message for each in compiled(both).problems] == [True]
    for text in ALIKE["mount"]:
        [job] = compiled(text).jobs
        assert "'mountPath': '/data'" in str(job)


REFUSED: Final[dict[str, str]] = {
    "a path out of the team's": secret("ml/../prod/db"),
    "a path from the root": secret("/prod/db"),
    "a path with an empty segment": secret("ml//db"),
    "a path that stays": secret("ml/./db"),
    "a store with a colon": small(
        {"envFrom": [{"secretResource": "x"}]}, x={"type": "secret", "params": {"provider": "a:b"}}
    ),
    "a pull secret elsewhere": changed(small(), {f"{WORK}/imagePullSecrets": ["../prod/pull"]}),
    "a key that ends a template": small(
        {"variables": {"V": 'a ${resources.x.k" | x "}'}}, x={"type": "secret"}
    ),
    "a type of Secret that is a right": small(
        {"envFrom": [{"secretResource": "x"}]},
        x={"type": "secret", "params": {"secretType": "kubernetes.io/service-account-token"}},
    ),
    "a digest in uppercase": small({"image": f"ghcr.io/acme/app@sha256:{'A' * 64}"}),
    "a capability of look-alikes": security(capabilities=["SYS_\N{CYRILLIC CAPITAL LETTER A}DMIN"]),
    "a final dot": endpoint("https://s3.example.com."),
    "a look-alike": endpoint("https://s3.ex\N{CYRILLIC SMALL LETTER A}mple.com"),
    "a letter that becomes ASCII": endpoint("https://\N{KELVIN SIGN}.example.com"),
    "an escaped host": endpoint("https://s3%2eexample.com"),
    "a user before the host": endpoint("https://s3.example.com@evil.example.org"),
    "a backslash before the host": endpoint("https://evil.example.org\\@s3.example.com"),
    "a fragment": endpoint("https://s3.example.com#@evil.example.org"),
    "half an address": endpoint("tcp://127.1:80"),
    "an octal address": endpoint("tcp://010.0.0.1:80"),
    "an address in one number": endpoint("tcp://2130706433:80"),
    "an address with a zone": endpoint("tcp://[fe80::1%25eth0]:80"),
    "an address without brackets": endpoint("tcp://2001:db8::1:80"),
    "a port that is none": endpoint("tcp://s3.example.com:65536"),
    "a Service as if it were outside": endpoint("tcp://db.prod.svc.cluster.local:5432"),
    "a mount above": mounted("/data/../etc"),
    "a mount of nothing": mounted("/"),
    "a file above": filed("/etc/../usr/bin/app"),
    "a part of a volume above": small(
        {"volumes": {"/d": {"source": "x", "path": "../b"}}}, x={"type": "volume", "id": "sets"}
    ),
    "a volume of another name": small(
        {"volumes": {"/d": {"source": "x"}}}, x={"type": "volume", "id": "../sets"}
    ),
    "a queue with a space": changed(small(), {"spec/queue": " prod"}),
    "a queue in uppercase": changed(small(), {"spec/queue": "Prod"}),
    "a namespace in uppercase": changed(small(), {"metadata/namespace": "ML"}),
    "a sysctl twice": changed(small(), {f"{WORK}/sysctls": {"kernel.a": "1", "kernel/a": "2"}}),
    "a program above": security(allowedBinaries=["/bin/../sbin/x"]),
    "a profile above": security(seccompProfile="Localhost", seccompLocalhostProfile="../../x"),
    "a variable of NCCL with =": changed(
        small(), {"spec/training": {"framework": "PyTorch", "nccl": {"extraEnv": {"A=B": "x"}}}}
    ),
    "a RuntimeClass of no name": small(None, x={"type": "gpu", "class": "a b"}),
    "a Service of no name": small(None, x={"type": "service", "namespace": "data", "id": "a/b"}),
    "a toleration in other letters": small(
        None, x={"type": "gpu", "params": {"tolerations": [{"key": "a", "operator": "exists"}]}}
    ),
    "a field that no toleration has": small(
        None, x={"type": "gpu", "params": {"tolerations": [{"key": "a", "x": 1}]}}
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_one_spelling_is_refused(kind: str) -> None:
    assert problems(REFUSED[kind])


def problems(text: str) -> list[str]:
    job, findings = parsed(text)
    if findings:
        return [str(each) for each in findings]
    return [each.message for each in compile_job(job, FACTS, TARGETS["muster"], None).problems]


PROBES: Final[list[dict[str, Any]]] = [
    {"httpGet": {"port": 80, "host": "169.254.169.254"}},
    {"httpGet": {"port": 80, "host": "127.0.0.1"}},
    {"tcpSocket": {"port": 80, "host": "db.prod"}},
    {"httpGet": {"port": "http"}},
    {"tcpSocket": {"port": 0}},
    {"exec": {"command": ["/bin/../x"]}},
    {"exec": {"command": []}},
    {"exec": {"command": ["/bin/a"]}, "tcpSocket": {"port": 80}},
    {"grpc": {"port": 80, "host": "a"}},
    {"httpGet": {"port": 80}, "sleep": {"seconds": 1}},
    {},
]


@pytest.mark.parametrize("probe", PROBES, ids=str)
@pytest.mark.parametrize("name", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_a_probe_reaches_its_own_pod_only(name: str, probe: dict[str, Any]) -> None:
    assert problems(small({name: probe}))


def test_hooks_are_no_field_of_a_job() -> None:
    hook = {"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80}}}
    assert any("unknown field" in each for each in problems(small({"lifecycle": hook})))


NAMES: Final = st.text("aAbZ.-_/:%@\\ \N{KELVIN SIGN}\N{CYRILLIC SMALL LETTER A}01", min_size=1, max_size=12)


@given(
    url=st.builds(
        "{}://{}{}".format,
        st.sampled_from(["https", "tcp", "udp", "HTTPS", ""]),
        NAMES,
        st.sampled_from(["", ":80", "/x"]),
    )
)
def test_an_endpoint_is_refused_or_what_is_asked_for_is_what_is_emitted(url: str) -> None:
    if (found := unless_refused(endpoint(url))) is None:
        return
    [asked] = [each for _, each in found.requests if each.action == "AccessExternalEndpoint"]
    host = asked.attributes["host"]
    assert host == host.lower()
    assert host.isascii()
    [policy] = [each for each in found.support if each["kind"] == "CiliumNetworkPolicy"]
    named = [each for rule in policy["spec"]["egress"] for each in rule.get("toFQDNs", [])]
    addresses = [
        each.partition("/")[0] for rule in policy["spec"]["egress"] for each in rule.get("toCIDR", [])
    ]
    assert [*(str(*each.values()) for each in named), *addresses] == [host]


@given(path=NAMES)
def test_a_secret_is_refused_or_what_is_asked_for_is_what_is_emitted(path: str) -> None:
    if (found := unless_refused(secret(path))) is None:
        return
    [asked] = [each for _, each in found.requests if each.action == "AccessSecret"]
    assert asked.attributes["path"] == path
    assert f"'remoteRef': {{'key': '{path}'" in str(found.support)


def unless_refused(text: str) -> Compiled | None:
    job, findings = parsed(text)
    return None if findings else compile_job(job, FACTS, TARGETS["muster"], None)

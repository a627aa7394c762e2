"""Kubeconfig files, as people have them and as they break."""

import base64
import json
import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.embedded import credentials
from muster.kube import config
from muster.kube.clock import SystemClock
from muster.kube.config import ConfigError

Write = Callable[..., str]
#: what only Python would say
_PYTHON = re.compile(r"Errno|_ssl|codec|padding|object (is|does)|'(str|int|list|NoneType)'|indices|attribute")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Certificates."""
    home = tmp_path / "home"
    home.mkdir()
    credentials.ensure(home, SystemClock().now())
    return home


@pytest.fixture
def write(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def write(user: dict[str, Any], **more: Any) -> str:
        authority = base64.b64encode(credentials.authority_file(home).read_bytes()).decode()
        cluster = {"server": "https://10.1.2.3:6443", "certificate-authority-data": authority}
        changed = cluster | more.pop("cluster", {})
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "one",
            "clusters": [{"name": "c", "cluster": {k: v for k, v in changed.items() if v}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [
                {"name": "one", "context": {"cluster": "c", "user": "u"}},
                {"name": "two", "context": {"cluster": "c", "user": "u", "namespace": "research"}},
            ],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(content | more))
        return str(path)

    return write


def test_a_token(write: Write) -> None:
    connection = config.load(write({"token": "secret"}))
    assert connection.server == "https://10.1.2.3:6443"
    assert connection.headers() == {"Authorization": "Bearer secret"}
    assert connection.namespace == "default"
    assert connection.tls is not None
    assert connection.tls.verify_mode == ssl.CERT_REQUIRED
    assert connection.tls.get_ca_certs()


def test_a_named_context_is_used_with_its_namespace(write: Write) -> None:
    assert config.load(write({"token": "t"}), "two").namespace == "research"


def test_the_file_that_the_environment_names(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", write({"token": "t"}))
    assert config.load().server == "https://10.1.2.3:6443"


def test_a_client_certificate(write: Write, home: Path) -> None:
    user = {"client-certificate": str(home / "server.crt"), "client-key": str(home / "server.key")}
    connection = config.load(write(user))
    assert connection.headers() == {}
    assert connection.tls is not None
    assert connection.certified
    assert not config.load(write({"token": "t"})).certified


def test_verification_is_off_only_where_the_file_says_so(write: Write) -> None:
    insecure = {"insecure-skip-tls-verify": True, "certificate-authority-data": None}
    connection = config.load(write({"token": "t"}, cluster=insecure))
    assert connection.tls is not None
    assert (connection.tls.verify_mode, connection.tls.check_hostname) == (ssl.CERT_NONE, False)


def test_the_scheme_of_a_server_may_be_in_capitals(write: Write) -> None:
    connection = config.load(write({"token": "t"}, cluster={"server": "HTTPS://10.1.2.3:6443"}))
    assert connection.tls is not None
    assert connection.tls.verify_mode == ssl.CERT_REQUIRED


def test_a_server_without_a_scheme_is_refused(write: Write) -> None:
    with pytest.raises(ConfigError, match="write https://HOST:PORT"):
        config.load(write({"token": "t"}, cluster={"server": "10.1.2.3:6443"}))


def test_plain_http(write: Write) -> None:
    assert config.load(write({}, cluster={"server": "http://127.0.0.1:8001"})).tls is None


def test_a_plug_in_is_run_for_the_token(write: Write, tmp_path: Path) -> None:
    told = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "fresh"},
    }
    plug_in = tmp_path / "plug-in"
    plug_in.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    plug_in.chmod(0o755)
    user = {
        "exec": {
            "apiVersion": told["apiVersion"],
            "command": str(plug_in),
            "interactiveMode": "Never",
        }
    }
    assert config.load(write(user)).headers() == {"Authorization": "Bearer fresh"}
    plug_in.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ConfigError, match=f"the plug-in {plug_in} gives no credentials"):
        config.load(write(user))


def _plug_in(path: Path, until: str) -> dict[str, Any]:
    """A plug-in that counts its runs in its tokens; each is good until then, "" = it does not say."""
    version = "client.authentication.k8s.io/v1"
    expires = f', "expirationTimestamp": "{until}"' if until else ""
    path.write_text(
        f"#!/bin/sh\necho >> {path}.runs\n"
        f'echo "{{\\"apiVersion\\": \\"{version}\\", \\"kind\\": \\"ExecCredential\\", \\"status\\": "\n'
        f"echo '{{\"token\": \"'run$(wc -l < {path}.runs)'\"{expires}}}}}'\n"
    )
    path.chmod(0o755)
    return {"exec": {"apiVersion": version, "command": str(path), "interactiveMode": "Never"}}


def test_a_plug_in_is_run_again_when_its_token_expires(write: Write, tmp_path: Path) -> None:
    now = 0.0
    user = _plug_in(tmp_path / "plug-in", "2030-01-01T00:00:00Z")
    connection = config.load(write(user), now=lambda: now)
    assert {connection.headers()["Authorization"] for _ in range(10)} == {"Bearer run1"}
    now = 1893456000.0  # that time
    assert {connection.headers()["Authorization"] for _ in range(10)} == {"Bearer run2"}


def test_a_plug_in_that_says_no_time_is_run_again_when_its_token_is_refused(
    write: Write, tmp_path: Path
) -> None:
    now = 0.0
    connection = config.load(write(_plug_in(tmp_path / "plug-in", "")), now=lambda: now)
    now = 1e12
    sent = connection.headers()
    assert sent == {"Authorization": "Bearer run1"}
    assert connection.refused(sent)
    assert connection.headers() == {"Authorization": "Bearer run2"}


def test_a_token_file_is_read_again_after_a_minute(write: Write, tmp_path: Path) -> None:
    now = 0.0
    file = tmp_path / "token"
    file.write_text("old")
    connection = config.load(write({"tokenFile": str(file)}), now=lambda: now)
    file.write_text("new")
    now = 59.0
    assert connection.headers() == {"Authorization": "Bearer old"}
    now = 60.0
    assert connection.headers() == {"Authorization": "Bearer new"}


def test_a_token_in_the_file_is_never_read_again(write: Write) -> None:
    now = 0.0
    connection = config.load(write({"token": "old"}), now=lambda: now)
    write({"token": "new"})
    now = 1e12
    sent = connection.headers()
    assert not connection.refused(sent)
    assert connection.headers() == {"Authorization": "Bearer old"}


def test_a_user_acts_as_another_one(write: Write) -> None:
    user = {
        "token": "t",
        "as": "ann",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"a/b": ["x", "y"]},
    }
    assert [*config.load(write(user)).headers().items()] == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "ann"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-a%2Fb", "x"),
        ("Impersonate-Extra-a%2Fb", "y"),
    ]


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"as-groups": ["dev"]}, "'as-groups' is given without 'as'; name a user, or remove it"),
        ({"as": "ann", "as-groups": "dev"}, "impersonation: Expected `array`, got `str` - at `$.as-groups`"),
    ],
)
def test_an_impersonation_that_is_not_understood_is_refused(
    write: Write, user: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        config.load(write({"token": "t", **user}))


def test_the_proxy_and_the_name_of_the_server(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    cluster = {"proxy-url": "http://proxy:3128", "tls-server-name": "kubernetes"}
    connection = config.load(write({"token": "t"}, cluster=cluster))
    assert (connection.proxy, connection.server_name) == ("http://proxy:3128", "kubernetes")
    connection = config.load(write({"token": "t"}))
    assert (connection.proxy, connection.server_name) == ("", "")
    for unusable in ("socks5://p:1", "http://me:hidden@p:port", "gopher://me:hidden@p"):
        with pytest.raises(ConfigError, match="proxy-url is not an http:// or https:// URL") as told:
            config.load(write({"token": "t"}, cluster={"proxy-url": unusable}))
        assert "hidden" not in str(told.value)
    monkeypatch.setenv("HTTPS_PROXY", "http://env:1")
    assert config.load(write({"token": "t"})).proxy == "http://env:1"
    assert config.load(write({"token": "t"}, cluster={"server": "https://127.0.0.1:6443"})).proxy == ""
    assert config.load(write({"token": "t"}, cluster={"proxy-url": ""})).proxy == "http://env:1"
    for exempt in ("10.1.2.3", "10.0.0.0/8", "10.1.2.3:6443", "*"):
        monkeypatch.setenv("NO_PROXY", exempt)
        assert config.load(write({"token": "t"})).proxy == ""
    monkeypatch.setenv("NO_PROXY", "10.1.2.3:1")
    for named in ("http://env:1", "env:1"):
        monkeypatch.setenv("HTTPS_PROXY", named)
        assert config.load(write({"token": "t"})).proxy == "http://env:1"
    monkeypatch.setenv("HTTPS_PROXY", "gopher://me:hidden@p")
    with pytest.raises(ConfigError, match="HTTPS_PROXY is not an http") as told:
        config.load(write({"token": "t"}))
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize(
    "server", ["https://h:99999999", "https://h:-1", "https://", "https://h:x", "h:6443"]
)
def test_a_server_that_is_no_url_is_named(write: Write, server: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL; write https://HOST:PORT"):
        config.load(write({"token": "t"}, cluster={"server": server}))


def test_certificates_that_are_replaced_are_read_again(
    write: Write, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    files = {name: tmp_path / name for name in ("ca.crt", "client.crt", "client.key")}
    new = tmp_path / "new"
    new.mkdir()
    credentials.ensure(new, SystemClock().now())

    def install(directory: Path) -> None:
        files["ca.crt"].write_bytes(credentials.authority_file(directory).read_bytes())
        files["client.crt"].write_bytes((directory / "server.crt").read_bytes())
        files["client.key"].write_bytes((directory / "server.key").read_bytes())

    install(home)
    user = {"client-certificate": str(files["client.crt"]), "client-key": str(files["client.key"])}
    cluster = {"certificate-authority": str(files["ca.crt"]), "certificate-authority-data": None}
    connection = config.load(write(user, cluster=cluster), now=lambda: now)
    assert connection.tls is not None
    assert len(connection.tls.get_ca_certs()) == 1
    install(new)
    connection.headers()
    assert len(connection.tls.get_ca_certs()) == 1, "not within the minute"
    now = 60.0
    connection.headers()
    assert len(connection.tls.get_ca_certs()) == 2
    files["client.key"].write_bytes(b"half")
    now = 120.0
    connection.headers()
    assert "certificates cannot be renewed" in caplog.text


def test_in_a_pod_the_namespace_is_that_of_the_service_account(
    write: Write, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    (account / "ca.crt").write_bytes(credentials.authority_file(home).read_bytes())
    (account / "namespace").write_text("muster-system")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    monkeypatch.setattr(config, "_ACCOUNT", str(account))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    now = 0.0
    connection = config.load(now=lambda: now)
    assert (connection.server, connection.namespace) == ("https://10.0.0.1:443", "muster-system")
    assert connection.headers() == {"Authorization": "bearer t"}
    (account / "token").write_text("u")
    now = 60.0
    assert connection.headers() == {"Authorization": "bearer u"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "just text",
        "clusters: 5",
        "current-context: x\ncontexts: []\nclusters: []\nusers: []",
        "\0",
        "contexts: [{name: 5}]",
        "current-context: c\nclusters: [{name: c, cluster: {server: 5}}]",
        "users: [{name: u, user: 7}]",
        "a: *b",
        "? [a]\n: b",
        "# no kubeconfig\n" * (1 << 19),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(write: Write, tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken"
    path.write_text(content)
    with pytest.raises(ConfigError, match="no usable cluster configuration") as refused:
        config.load(str(path))
    assert not _PYTHON.search(str(refused.value)), "it is told in terms of the file"


def test_a_kubeconfig_with_missing_files_or_fields_is_refused(write: Write, tmp_path: Path) -> None:
    lies: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"client-certificate": "/absent.crt", "client-key": "/absent.key"}, {}),
        ({"token": "t"}, {"certificate-authority-data": "bm90aGluZw=="}),
        ({"token": "t"}, {"certificate-authority-data": "!"}),
        ({"token": "t"}, {"server": None}),
    ]
    for user, cluster in lies:
        with pytest.raises(ConfigError, match=r"no usable cluster configuration: .*kubeconfig: ") as refused:
            config.load(write(user, cluster=cluster))
        assert not _PYTHON.search(str(refused.value))
    absent = str(tmp_path / "absent")
    for path, context, told in (
        (absent, None, f"{absent}: no such file"),
        (f"{absent}:{absent}2", None, "no such file"),
        (absent, "test", "no such file"),
        (write({"token": "t"}), "prod", "no context prod; contexts: one, two"),
    ):
        with pytest.raises(ConfigError, match=f"no usable cluster configuration: .*{told}"):
            config.load(path, context)


def test_without_any_configuration(write: Write) -> None:
    assert not os.path.exists(os.path.expanduser("~/.kube/config"))
    told = r"no usable cluster configuration: there is no .*/config, and this is not a pod; name a file"
    with pytest.raises(ConfigError, match=told):
        config.load()

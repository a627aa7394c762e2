"""A real Kubernetes control plane on loopback, for tests: etcd, API server, controllers, default scheduler.

It is built once from Go modules (`control_plane/go.mod` pins the versions) and kept in the cache directory.
RBAC is on. An audit log records every write with microseconds, and every request of muster's accounts: muster
is judged by what the server saw. All data is in a directory of the test's. The processes are children of the
test's, and are killed when it ends. Helm and kubectl are built in the same way.
"""

import base64
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.cluster import building
from tests.cluster.building import Missing
from tests.patience import CLUSTER

HERE: Final = Path(__file__).parent / "control_plane"
#: What is built, and of which package. All share most of their code, and are compiled once.
PROGRAMS: Final = {
    "control-plane": ".",
    "helm": "helm.sh/helm/v4/cmd/helm",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
HOST: Final = "127.0.0.1"
UNMANAGED: Final = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"
GATES: Final = "GenericWorkload=true,WorkloadWithJob=true"
RUNTIME: Final = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
_AUDIT: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request  # with what was asked for
  verbs: [create, patch]
  resources: [{group: muster.dev, resources: [gangs]}, {group: batch, resources: [jobs]}]
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: Metadata, userGroups: ["system:serviceaccounts:muster-system"]}  # also reads that are refused
- {level: None}
"""


def built(program: str = "control-plane") -> Path:
    """One of `PROGRAMS`, built if there is none of these versions. Raises Missing."""
    if shutil.which("go") is None:
        raise Missing(
            "the test cluster is built with Go, and there is no `go`; install Go, or set KUBECONFIG"
        )
    source = "".join((HERE / name).read_text() for name in ("go.mod", "main.go"))
    return building.built(program, source, partial(_build, PROGRAMS[program]))


def _build(package: str, binary: Path) -> None:
    version = building.go(HERE, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").strip()
    minor = version.split(".")[1]
    flags = " ".join(
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in (("gitVersion", version), ("gitMajor", "1"), ("gitMinor", minor))
    )
    building.go(HERE, "build", "-trimpath", "-ldflags", f"-s -w {flags}", "-o", str(binary), package)


@dataclass
class ControlPlane:
    """A running control plane."""

    home: Path
    server: str
    kubeconfig: Path
    audit: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    #: of Kubernetes' features, for all components
    gates: str = GATES
    #: from when until when an API server started that had been killed, in Unix seconds
    starts: list[tuple[float, float]] = field(default_factory=list)

    def user(self, name: str, token: str) -> Path:
        """The kubeconfig of a token."""
        path = self.home / f"{name}.kubeconfig"
        authority = base64.b64encode((self.home / "ca.crt").read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {"name": "test", "cluster": {"server": self.server, "certificate-authority-data": authority}}
            ],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        }
        path.write_bytes(msgspec.json.encode(config))
        path.chmod(0o600)
        return path

    def entries(self, since: int = 0) -> Iterator[dict[str, Any]]:  # Any: JSON
        """The audit log in the order in which the server finished the requests; none if there is no log.

        `since`: a former size of the log, in bytes.
        """
        if not self.audit.is_file():
            return
        with self.audit.open("rb") as log:
            log.seek(since)
            *lines, _ = log.read().split(b"\n")  # the last one may be in the making
        for line in lines:
            yield msgspec.json.decode(line)

    def kill(self, name: str) -> None:
        """Ends a component without notice."""
        self.processes[name].kill()
        self.processes[name].wait()

    def restart_api_server(self) -> None:
        """Starts an API server that has been killed. While it starts, it refuses what roles allow."""
        began, name = time.time(), "kube-apiserver"
        _launch(self, name, self.processes[name].args)
        _await(self, name, f"{self.server}/readyz")
        self.starts.append((began, time.time()))

    def compact(self) -> None:
        """Makes etcd forget all but the newest revisions, so that a watch cannot continue from before."""
        here = self._etcd("range", {"key": base64.b64encode(b"/").decode(), "keys_only": True})
        revision = here["header"]["revision"]
        self._etcd("compaction", {"revision": revision, "physical": True})

    def _etcd(self, call: str, body: dict[str, object]) -> dict[str, Any]:  # Any: JSON
        arguments = self.processes["etcd"].args
        assert isinstance(arguments, list)
        (url,) = (one.partition("=")[2] for one in map(str, arguments) if "advertise-client-urls" in one)
        request = urllib.request.Request(f"{url}/v3/kv/{call}", msgspec.json.encode(body))
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=CLUSTER
        ) as answer:
            found: dict[str, Any] = msgspec.json.decode(answer.read())
            return found

    def _started(self, at: float) -> bool:
        return any(began <= at <= ready for began, ready in self.starts)

    def forbidden(self, users: Container[str]) -> list[str]:
        """What these users' roles, or the policies that confine them, do not allow, as `USER VERB PATH`.

        (Other admission has reasons of its own.)
        """
        return [
            f"{entry['user']['username']} {entry['verb']} {entry['requestURI']}"
            for entry in self.entries()
            if entry["user"]["username"] in users
            and not self._started(datetime.fromisoformat(entry["stageTimestamp"]).timestamp())
            and (
                entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
                or "-confine-" in entry.get("responseStatus", {}).get("message", "")
            )
        ]


@contextmanager
def running(
    home: Path, *, scheduler: bool = False, controllers: bool = True, gates: str = GATES
) -> Iterator[ControlPlane]:
    """A control plane with its data below `home`; with the default scheduler, if asked. Raises Missing.

    Without `controllers` nothing taints nodes or makes service accounts, so nothing is admitted by them.
    """
    binary = built()
    home.mkdir(parents=True, exist_ok=True)
    _keys(home)
    tokens = {user: secrets.token_hex(16) for user in ("admin", "controllers", "scheduler")}
    (home / "tokens.csv").write_text(
        f'{tokens["admin"]},admin,admin,"system:masters"\n'
        f"{tokens['controllers']},system:kube-controller-manager,controllers\n"
        f"{tokens['scheduler']},system:kube-scheduler,scheduler\n"
    )
    (home / "audit.yaml").write_text(_AUDIT)
    etcd, api = free_ports(2)
    plane = ControlPlane(
        *(home, f"https://{HOST}:{api}", home / "admin.kubeconfig", home / "audit.log"), gates=gates
    )
    for user, token in tokens.items():
        plane.user(user, token)
    try:
        _start(plane, binary, "etcd", _etcd(home, etcd), f"http://{HOST}:{etcd}/health")
        _start(
            plane,
            binary,
            "kube-apiserver",
            [*_api_server(plane, etcd, api), *(() if controllers else (UNMANAGED,))],
            f"{plane.server}/readyz",
            tokens["admin"],
        )
        if controllers:
            _start_client(plane, binary, "kube-controller-manager", "controllers", *_controllers(home))
        if scheduler:
            start_scheduler(plane)
        if controllers:  # pods are refused until it is there
            account = f"{plane.server}/api/v1/namespaces/default/serviceaccounts/default"
            _await(plane, "kube-apiserver", account, tokens["admin"])
        yield plane
    finally:
        for process in reversed(plane.processes.values()):  # all of it is for throwing away: no grace
            process.kill()
        for process in plane.processes.values():
            process.wait()


def start_scheduler(plane: ControlPlane) -> None:
    """Starts the default scheduler, and waits until it is ready."""
    _start_client(plane, built(), "kube-scheduler", "scheduler")


def _start_client(plane: ControlPlane, binary: Path, name: str, user: str, *more: str) -> None:
    """Starts a component that is a client of the API server, as this user, and waits until it is ready."""
    config, (port,) = plane.home / f"{user}.kubeconfig", free_ports(1)
    arguments = [
        *(
            f"--{option}={config}"
            for option in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        ),
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={plane.home / user}",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        f"--feature-gates={plane.gates}",
        *more,
    ]
    # the controllers serve no /readyz
    path = "readyz" if name == "kube-scheduler" else "healthz"
    _start(plane, binary, name, arguments, f"https://{HOST}:{port}/{path}", verify=False)


def _start(
    plane: ControlPlane,
    binary: Path,
    name: str,
    arguments: Sequence[str],
    url: str,
    token: str = "",
    *,
    verify: bool = True,
) -> None:
    _launch(plane, name, [str(binary), name, *arguments])
    _await(plane, name, url, token, verify=verify)


def _launch(plane: ControlPlane, name: str, arguments: Any) -> None:  # Any: as `Popen.args` has them
    with (plane.home / f"{name}.log").open("ab") as log:
        plane.processes[name] = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=plane.home,
            start_new_session=True,
        )


def _await(plane: ControlPlane, name: str, url: str, token: str = "", *, verify: bool = True) -> None:
    """Waits until the component answers with 200. Raises Missing with the end of its log."""
    tls = ssl.create_default_context(cafile=plane.home / "ca.crt")
    if not verify:  # these serve a certificate of their own
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    until, last = time.monotonic() + CLUSTER, ""
    while time.monotonic() < until and plane.processes[name].poll() is None:
        try:
            with opener.open(urllib.request.Request(url, headers=headers), timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError as error:
            last = str(error)
        time.sleep(0.1)
    log = (plane.home / f"{name}.log").read_text(errors="replace")[-3000:]
    raise Missing(f"{name} does not answer at {url}: {last}\n{log}")


def _etcd(home: Path, port: int) -> list[str]:
    url = f"http://{HOST}:{port}"
    return [
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://{HOST}:0",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(plane: ControlPlane, etcd: int, port: int) -> list[str]:
    home = plane.home
    return [
        f"--etcd-servers=http://{HOST}:{etcd}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={home / 'server.crt'}",
        f"--tls-private-key-file={home / 'server.key'}",
        f"--cert-dir={home / 'api'}",
        f"--client-ca-file={home / 'ca.crt'}",
        f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",  # as on OpenShift
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={home / 'accounts.pub'}",
        f"--service-account-signing-key-file={home / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--requestheader-client-ca-file={home / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--feature-gates={plane.gates}",
        f"--runtime-config={RUNTIME}",
        f"--audit-policy-file={home / 'audit.yaml'}",
        f"--audit-log-path={plane.audit}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",  # MB: a log that is rotated has lost what tests look for
    ]


def _controllers(home: Path) -> list[str]:
    return [
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={home / 'accounts.key'}",
        f"--root-ca-file={home / 'ca.crt'}",
        f"--cluster-signing-cert-file={home / 'ca.crt'}",
        f"--cluster-signing-key-file={home / 'ca.key'}",
    ]


def _keys(home: Path) -> None:
    """A certificate authority, the API server's certificate, and the key of service account tokens."""
    names = "IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc"
    (home / "server.ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for arguments in (
        (
            "req",
            "-x509",
            *key,
            "-days",
            "30",
            "-subj",
            "/CN=test-ca",
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
        ),
        ("req", *key, "-subj", "/CN=kube-apiserver", "-keyout", "server.key", "-out", "server.csr"),
        (
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "30",
            "-extfile",
            "server.ext",
            "-out",
            "server.crt",
        ),
        ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", "accounts.key"),
        ("pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"),
    ):
        subprocess.run(["openssl", *arguments], cwd=home, check=True, capture_output=True)


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()

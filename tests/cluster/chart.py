"""muster's Helm chart on a test cluster, and what it takes to run its Deployments as processes.

No kubelet is here, so the tests start what a kubelet would start: the container's arguments, with a token of
the pod's ServiceAccount. Only the address to listen at differs, since all pods share one network.
"""

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster.building import Missing
from tests.cluster.control_plane import built
from tests.patience import CLUSTER

CHART: Final = Path(__file__).parents[2] / "charts/muster"
NAMESPACE: Final = "muster-system"
#: Values with which tests find the chart installed, and leave it: all Deployments, without replicas.
ASLEEP: Final = (
    "scheduler.replicas=0",
    "controllers.replicas=0",
    "dashboard.enabled=true",
    "dashboard.replicas=0",
)


@dataclass
class Chart:
    """A release of the chart."""

    admin: Path
    home: Path
    release: str = "muster"
    namespace: str = NAMESPACE
    _users: dict[str, Path] = field(default_factory=dict)

    @property
    def accounts(self) -> frozenset[str]:
        """The users that the daemons are."""
        return frozenset(
            f"system:serviceaccount:{self.namespace}:{self.release}-{name}"
            for name in ("scheduler", "controllers", "dashboard")
        )

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return run("kubectl", *arguments, kubeconfig=self.admin, home=self.home, stdin=stdin)

    def await_roles(self) -> None:
        """Waits until the API server, which reads roles in the background, knows those of the chart."""
        until = time.monotonic() + CLUSTER
        for daemon in ("scheduler", "controllers"):
            for right in (("list", "pods"), ("create", "leases.coordination.k8s.io")):  # ClusterRole and Role
                while not self.may(daemon, *right):
                    assert time.monotonic() < until, f"{daemon} may not {' '.join(right)}"

    def may(self, daemon: str, verb: str, resource: str) -> bool:
        """Whether the API server permits this to the Deployment's ServiceAccount, in its namespace."""
        user = f"--as=system:serviceaccount:{self.namespace}:{self.release}-{daemon}"
        try:
            return "yes" in self.kubectl(
                "auth", "can-i", verb, resource, user, f"--namespace={self.namespace}"
            )
        except AssertionError:  # it exits with 1 for "no"
            return False

    def arguments(self, daemon: str, port: int = 0) -> list[str]:
        """The arguments of the Deployment's container, with its ConfigMap in a file; port 0: none."""
        file = self.home / f"{daemon}.yaml"
        if daemon != "dashboard":  # which has no settings but its arguments
            file.write_text(self._get("configmap", f"{self.release}-{daemon}")["data"]["config.yaml"])
        given = [each for each in self.container(daemon)["args"] if not each.startswith("--listen")]
        listen = [f"--listen=127.0.0.1:{port}"] if port else []
        return [*(each.replace("/etc/muster/config.yaml", str(file)) for each in given), *listen]

    def container(self, daemon: str) -> Any:  # Any: JSON
        (container,) = self._pod(daemon)["containers"]
        return container

    def kubeconfig(self, daemon: str) -> Path:
        """A kubeconfig with a token of the Deployment's ServiceAccount, as TokenRequest gives it."""
        account = self._pod(daemon)["serviceAccountName"]
        if account not in self._users:
            token = self.kubectl(
                "create", "token", account, f"--namespace={self.namespace}", "--duration=2h"
            ).strip()
            found = json.loads(
                self.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json")
            )
            found["users"][0]["user"] = {"token": token}
            path = self._users[account] = self.home / f"{account}.kubeconfig"
            path.write_text(json.dumps(found))
            path.chmod(0o600)
        return self._users[account]

    def forget(self) -> None:
        """Forgets the tokens: the accounts have been deleted."""
        self._users.clear()

    def _pod(self, daemon: str) -> Any:  # Any: JSON
        return self._get("deployment", f"{self.release}-{daemon}")["spec"]["template"]["spec"]

    def _get(self, kind: str, name: str) -> Any:  # Any: JSON
        return json.loads(self.kubectl("get", kind, name, f"--namespace={self.namespace}", "--output=json"))


def install(
    kubeconfig: Path, home: Path, *values: str, release: str = "muster", namespace: str = NAMESPACE
) -> Chart:
    """Installs the chart with these values, each `PATH=VALUE`, or upgrades it to them."""
    arguments = [
        "upgrade",
        "--install",
        release,
        str(CHART),
        f"--namespace={namespace}",
        "--create-namespace",
        "--force-conflicts",  # with what other tests have applied by kubectl
    ]
    run("helm", *arguments, *(f"--set={value}" for value in values), kubeconfig=kubeconfig, home=home)
    return Chart(kubeconfig, home, release, namespace)


def rendered(home: Path, *values: str) -> str:
    """The chart's objects as YAML; no cluster is asked."""
    arguments = ["template", "muster", str(CHART), f"--namespace={NAMESPACE}"]
    return run(
        "helm", *arguments, *(f"--set={value}" for value in values), kubeconfig=Path(os.devnull), home=home
    )


def run(program: str, *arguments: str, kubeconfig: Path, home: Path, stdin: str = "") -> str:
    """What the program prints. Its caches are below `home`. Raises AssertionError if it fails."""
    done = subprocess.run(
        [found(program), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=CLUSTER,
    )
    assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


def found(program: str) -> Path:
    """The program of the pinned version; without Go, the one in the path. Raises Missing."""
    try:
        return built(program)
    except Missing:
        if there := shutil.which(program):
            return Path(there)
        raise

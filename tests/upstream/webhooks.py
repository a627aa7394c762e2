"""Webhooks of controllers that run as processes: at an address, where installations name a Service."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from muster.api.base import Object
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import HOST, ControlPlane
from tests.upstream.modules import Upstream


def certificates(plane: ControlPlane, home: Path) -> Path:
    """A directory with a certificate that the API server trusts, as controllers expect it."""
    home.mkdir(parents=True)
    shutil.copy(plane.home / "server.crt", home / "tls.crt")
    shutil.copy(plane.home / "server.key", home / "tls.key")
    return home


def at(plane: ControlPlane, port: int) -> Callable[[str], Object]:
    """How the API server reaches a webhook with such a certificate, by its path."""
    authority = base64.b64encode((plane.home / "ca.crt").read_bytes()).decode()
    return lambda path: {"url": f"https://{HOST}:{port}{path}", "caBundle": authority}


def register(
    cluster: Cluster,
    upstream: Upstream,
    file: str,
    name: str,
    where: Callable[[str], Object],
    *,
    pods: str = "",
) -> None:
    """Creates the configurations of the module's file under this name. `pods`: their webhooks of pods see
    only those with this label, as an installation's patch has it."""
    found: list[Object] = []
    (path,) = upstream.manifests(file)
    for each in filter(None, yaml.safe_load_all(path.read_text())):
        each["metadata"] = {"name": name}
        for hook in each["webhooks"]:
            hook["clientConfig"] = where(hook["clientConfig"]["service"]["path"])
            if pods and any("pods" in rule["resources"] for rule in hook["rules"]):
                marked: Any = [{"key": pods, "operator": "Exists"}]  # Any: JSON
                hook["objectSelector"] = {"matchExpressions": marked}
        found.append(each)
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
    cluster.chart.kubectl("create", "--filename=-", stdin=items)


def unregister(cluster: Cluster, name: str) -> None:
    """Deletes them: without its controller, a webhook would refuse what other tests make."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    cluster.chart.kubectl("delete", kinds, name, "--ignore-not-found")

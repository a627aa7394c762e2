"""The pipeline: a workload and facts in, a draft out.

Each stage adds to the draft and none takes away. Stages do not stop at a problem: the developer gets all of
them at once. What may be emitted is not decided here but by the gates, which read the draft
(`security/requests.py`), so that nothing can be emitted without being asked for.
"""

import hashlib
from typing import Final

import msgspec

from muster import names
from muster.compiler import containers, mesh, network, runtime
from muster.compiler.draft import NAME, Draft
from muster.compiler.facts import Facts
from muster.compiler.workload import Workload

#: Bytes of a ConfigMap or Secret.
MOST: Final = 2**20
MANAGED_BY: Final = "app.kubernetes.io/managed-by"


def compile_workload(workload: Workload, facts: Facts) -> Draft:
    """Everything that the workload needs, and everything that keeps it from being compiled."""
    labels = {NAME: workload.name, MANAGED_BY: "muster"}
    draft = Draft(workload.namespace, labels)
    spec = containers.pod(workload, facts, draft)
    draft.emit(
        "v1",
        "ServiceAccount",
        workload.name,
        workload.path,
        automountServiceAccountToken=workload.automount_token,
    )
    network.policies(workload, facts, draft)
    runtime.policy(workload, facts, draft)
    peers = {names.PEERS: workload.peers} if workload.peers else {}
    _sizes(draft)
    config = [made for made in draft.objects if made["kind"] in ("ConfigMap", "Secret")]
    hashed = hashlib.sha256(msgspec.json.encode(config, order="deterministic")).hexdigest()[:16]
    draft.pod = {
        "metadata": {
            "labels": {NAME: workload.name, **peers, **mesh.labels(workload, facts)},
            "annotations": {names.CONFIG_HASH: hashed},
        },
        "spec": spec,
    }
    return draft


def _sizes(draft: Draft) -> None:
    """Reports ConfigMaps and Secrets that are too large for an API server."""
    for made in draft.objects:
        if made["kind"] in ("ConfigMap", "Secret") and (size := len(msgspec.json.encode(made))) > MOST:
            draft.problem(
                draft.needed_by(made),
                f"{made['metadata']['name']} would have {size / 2**20:.1f} MiB, and a {made['kind']} holds "
                f"{MOST // 2**20} MiB; put large files into a volume",
            )

"""The environment variables of every pod of an AIchor experiment.

`JOB_COMPLETION_INDEX` is Kubernetes' own, from the Job controller. The other five are AIchor's: each is a
label that JobSet has set on the pod, passed by the downward API. With MUSTER_PEERS and MUSTER_COORDINATOR the
program need not parse its own hostname.
"""

from typing import Final

from muster.api import jobset_v1alpha2 as jobset
from muster.api.base import Object

#: Variable → label of the pod that it is read from.
FROM_LABELS: Final = {
    "JOB_INDEX": jobset.JOB_INDEX,
    "GLOBAL_REPLICAS": jobset.GLOBAL_REPLICAS,
    "JOB_GLOBAL_INDEX": jobset.JOB_GLOBAL_INDEX,
    "REPLICATED_JOB_NAME": jobset.REPLICATED_JOB_NAME,
    "REPLICATED_JOB_REPLICAS": jobset.REPLICATED_JOB_REPLICAS,
}
PEERS: Final = "MUSTER_PEERS"
COORDINATOR: Final = "MUSTER_COORDINATOR"
#: Of a sweep: the file for a trial's result, which every cluster keeps as the message of the container's end.
RESULT: Final = ("MUSTER_RESULT", "/dev/termination-log")

_PROTECTED: Final = {
    *FROM_LABELS,
    "JOB_COMPLETION_INDEX",
    "AICHOR_INPUT_PATH",
    "AICHOR_OUTPUT_PATH",
    "AICHOR_TENSORBOARD_PATH",
    "AICHOR_LOGS_PATH",
    "AICHOR_EXPERIMENT_MESSAGE",
    "AICHOR_OUTPUT_BUCKET_NAME",
    "AWS_ENDPOINT_URL",
    "S3_ENDPOINT",
}
#: Longest string in bytes that Linux passes to a program: MAX_ARG_STRLEN less its terminating zero.
_LONGEST: Final = 128 * 1024 - 1


def protected(name: str) -> bool:
    """Whether AIchor or muster sets this variable, so that a manifest may not."""
    return name in _PROTECTED or name.startswith("MUSTER_")


def of_every_pod(peers: list[str], *, trials: bool = False) -> list[Object]:
    """The variables as a container's `env`. `peers`: the first wave's hosts, in the order of the file.

    `trials`: whether the pods are trials of a sweep.
    """
    env: list[Object] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}
        for name, label in FROM_LABELS.items()
    ]
    if peers:
        env.append({"name": COORDINATOR, "value": peers[0]})
    if fits(peers):
        env.append({"name": PEERS, "value": ",".join(peers)})
    if trials:
        env.append({"name": RESULT[0], "value": RESULT[1]})
    return env


def fits(peers: list[str]) -> bool:
    """Whether the list of peers is short enough to be passed to a program."""
    return len(PEERS) + 1 + sum(len(peer) + 1 for peer in peers) - 1 <= _LONGEST

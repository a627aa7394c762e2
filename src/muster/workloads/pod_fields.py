"""What each field of a pod does on the embedded cluster: it works, it has no meaning there, or it is ignored.

Nothing that a user wrote is ignored silently: `ignored` finds the fields that other clusters act upon and the
embedded one does not. `run`, `submit` and `check` say so, and so does an Event of the pod. A test holds these
tables against Kubernetes' definitions, so a new field is in one of them or breaks it.
"""

from collections.abc import Iterator
from typing import Final

from muster.api.base import Object
from muster.api.fields import Path

#: Fields that work as in Kubernetes, or are refused with a message of their own; by Kubernetes' types.
WORKS: Final = {
    "PodSpec": """
        activeDeadlineSeconds affinity containers hostAliases hostname initContainers nodeName nodeSelector
        overhead preemptionPolicy priority priorityClassName resourceClaims resources restartPolicy
        runtimeClassName schedulerName schedulingGates schedulingGroup setHostnameAsFQDN subdomain
        terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes
    """,
    "Container": """
        args command env envFrom lifecycle livenessProbe name ports readinessProbe resources restartPolicy
        startupProbe terminationMessagePath terminationMessagePolicy volumeDevices volumeMounts workingDir
    """,
    "Lifecycle": "postStart preStop",
    "Probe": """
        exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold tcpSocket
        timeoutSeconds
    """,
    "VolumeMount": "mountPath name readOnly subPath subPathExpr",
    "EmptyDirVolumeSource": "medium sizeLimit",
}
#: Fields that say how something is done that the embedded cluster does not do: it has no images, tokens or
#: kubelet, and its network is the machine's own. docs/reference/running-pods.md says so.
MEANINGLESS: Final = {
    "PodSpec": """
        automountServiceAccountToken dnsPolicy enableServiceLinks ephemeralContainers evictionResponders
        hostNetwork hostUsers imagePullSecrets os readinessGates serviceAccount serviceAccountName
    """,
    "Container": "image imagePullPolicy resizePolicy stdinOnce",
    "VolumeMount": "bindMountOptions mountPropagation",
}
_USER: Final = "containers run as the caller, with the caller's rights"
#: Fields that are ignored, and what holds instead.
IGNORED: Final[dict[str, dict[str, str]]] = {
    "PodSpec": {
        "dnsConfig": "names are resolved as on this machine",
        "hostIPC": "pods share this machine's IPC anyway",
        "hostPID": "containers see their own processes only",
        "hostnameOverride": "write hostname",
        "securityContext": _USER,
        "shareProcessNamespace": "each container sees its own processes only",
    },
    "Container": {
        "restartPolicyRules": "the pod's restartPolicy decides",
        "securityContext": _USER,
        "stdin": "a container reads an empty stdin",
        "tty": "a container has no terminal",
    },
    "Lifecycle": {"stopSignal": "the command gets SIGTERM"},
    "Probe": {"terminationGracePeriodSeconds": "the pod's grace period counts"},
    "VolumeMount": {"recursiveReadOnly": "only the mount itself is read-only"},
    "EmptyDirVolumeSource": {"mode": "its directories are private to the caller"},
}
#: Values that say what holds anyway.
_DEFAULTS: Final[tuple[object, ...]] = ("", False, None, [], {}, "Disabled", "TERM")


def ignored(spec: Object) -> Iterator[tuple[Path, str]]:
    """The fields of a pod's spec that are ignored, each with its path in the spec and what holds instead."""
    yield from _of("PodSpec", spec, ())
    for field in ("initContainers", "containers"):
        for index, container in enumerate(_objects(spec.get(field))):
            at: Path = (field, index)
            yield from _of("Container", container, at)
            yield from _of("Lifecycle", _object(container.get("lifecycle")), (*at, "lifecycle"))
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                yield from _of("Probe", _object(container.get(probe)), (*at, probe))
            for number, mount in enumerate(_objects(container.get("volumeMounts"))):
                yield from _of("VolumeMount", mount, (*at, "volumeMounts", number))
    for index, volume in enumerate(_objects(spec.get("volumes"))):
        empty = _object(volume.get("emptyDir"))
        yield from _of("EmptyDirVolumeSource", empty, ("volumes", index, "emptyDir"))


def _of(type_: str, value: Object, at: Path) -> Iterator[tuple[Path, str]]:
    for field, instead in IGNORED[type_].items():
        if value.get(field) not in _DEFAULTS:
            yield (*at, field), instead


def _objects(value: object) -> list[Object]:
    return [_object(each) for each in value] if isinstance(value, list) else []


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}

"""Compiles the containers of a workload: variables, files, directories, resources, probes, security.

Without a `security` section a container conforms to Pod Security Standard *restricted*. Everything that it
asks for beyond that is visible in the pod, and is what the gates read.
"""

import base64
import hashlib
import re
from typing import Final

from muster import names
from muster.api.base import Object
from muster.compiler.draft import Draft, mapping
from muster.compiler.facts import Facts, admits
from muster.compiler.secrets import Secrets
from muster.compiler.values import SecretKey, Value, resolve
from muster.compiler.workload import (
    Container,
    File,
    Gpu,
    Mount,
    Resource,
    Secret,
    Toleration,
    Volume,
    Workload,
)

#: The id of the user and group `nobody`.
NOBODY: Final = 65534
GPU: Final = "nvidia.com/gpu"
#: What pods with GPUs tolerate without being asked: the taint that keeps others off.
GPU_TAINT: Final = Toleration(GPU, None, "NoSchedule")
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
#: What gates are asked about volumes, images and overrides (`security/requests.py`).
VOLUME: Final = "volume"
IMAGE: Final = "image"


def pod(workload: Workload, facts: Facts, draft: Draft) -> Object:
    """The PodSpec of a workload; what it needs besides goes into the draft."""
    secrets = Secrets(workload, facts, draft)
    spec: Object = {
        "serviceAccountName": workload.name,
        "automountServiceAccountToken": workload.automount_token,
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": NOBODY,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if any(not container.security.run_as_non_root for container in workload.containers):
        del spec["securityContext"]["runAsNonRoot"]
    if workload.sysctls:
        spec["securityContext"]["sysctls"] = [
            {"name": name, "value": value} for name, value in sorted(workload.sysctls.items())
        ]
    if workload.host_network:
        spec["hostNetwork"] = True
    if workload.share_process_namespace:
        spec["shareProcessNamespace"] = True
    pull = [secrets.pull(name) for name in workload.pull_secrets]
    if named := [{"name": name} for name in pull if name]:
        spec["imagePullSecrets"] = named
    volumes: dict[str, Object] = {}
    for container in workload.containers:
        place = "initContainers" if container.sidecar else "containers"
        spec.setdefault(place, []).append(_container(container, workload, facts, draft, secrets, volumes))
    _gpus(spec, workload, volumes)
    if volumes:
        spec["volumes"] = [volumes[name] for name in sorted(volumes)]
    return spec


def references(workload: Workload, draft: Draft) -> None:
    """Reports what the containers refer to and the workload does not declare, as compiling them would.

    For a workload that cannot be compiled.
    """
    for container in workload.containers:
        for name, text in container.variables.items():
            resolve(text, workload, draft, (*container.path, "variables", name))
        for file in container.files:
            resolve(file.text or "", workload, draft, file.path, file.expand)
        for name in container.env_from:
            _secret(name, container, workload, draft)
        for mount in container.mounts:
            if mount.resource:
                _volume(mount, workload, draft)


def _container(
    container: Container,
    workload: Workload,
    facts: Facts,
    draft: Draft,
    secrets: Secrets,
    volumes: dict[str, Object],
) -> Object:
    made: Object = {"name": container.name, "image": _image(container, facts, draft)}
    for key, values in (("command", container.command), ("args", container.args)):
        if values:
            made[key] = list(values)
    if container.working_dir:
        made["workingDir"] = container.working_dir
    if container.sidecar:
        made["restartPolicy"] = "Always"
    _variables(made, container, workload, draft, secrets)
    mounts = [_file(file, container, workload, draft, secrets, volumes) for file in container.files]
    mounts += [_mount(mount, workload, facts, draft, volumes) for mount in container.mounts]
    if found := [mount for mount in mounts if mount is not None]:
        made["volumeMounts"] = sorted(found, key=lambda mount: str(mount["mountPath"]))
        _once(container, found, draft)
    resources = {
        name: dict(amounts)
        for name, amounts in (("requests", container.requests), ("limits", container.limits))
        if amounts
    }
    if resources:
        made["resources"] = resources
    made.update({name: dict(probe) for name, probe in container.probes.items()})
    made["securityContext"] = _security(container)
    return made


def _image(container: Container, facts: Facts, draft: Draft) -> str:
    """The image with the digest that it was verified by."""
    draft.origin(IMAGE, container.image, (*container.path, "image"))
    known = facts.images.get(container.image)
    if known is None:
        return container.image
    if not known.trusted:
        draft.problem((*container.path, "image"), f"image verification denied: {known.reason}")
    if not known.digest:
        return container.image
    name = container.image.partition("@")[0]
    if ":" in name.rpartition("/")[2]:
        name = name.rpartition(":")[0]
    pinned = f"{name}@{known.digest}"
    draft.origin(IMAGE, pinned, (*container.path, "image"))
    return pinned


def _variables(
    made: Object, container: Container, workload: Workload, draft: Draft, secrets: Secrets
) -> None:
    env: list[Object] = []
    plain: dict[str, str] = {}
    mixed: dict[str, list[Value]] = {}
    for name, text in container.variables.items():
        match resolve(text, workload, draft, (*container.path, "variables", name)):
            case [SecretKey() as only]:
                key = {"name": secrets.own(only.resource, only.secret), "key": only.key}
                env.append({"name": name, "valueFrom": {"secretKeyRef": key}})
            case values if any(isinstance(value, SecretKey) for value in values):
                mixed[name] = values
            case values:
                plain[name] = "".join(str(value) for value in values)
    sources: list[Object] = []
    if plain:
        name = f"{workload.name}-{container.name}-env"
        draft.emit("v1", "ConfigMap", name, (*container.path, "variables"), data=dict(sorted(plain.items())))
        sources.append({"configMapRef": {"name": name}})
    sources += secrets.variables(container, mixed)
    for name in container.env_from:
        if (secret := _secret(name, container, workload, draft)) is not None:
            sources.append({"secretRef": {"name": secrets.own(workload.resources[name], secret)}})
    if env:
        made["env"] = env
    if sources:
        made["envFrom"] = sources


def _secret(name: str, container: Container, workload: Workload, draft: Draft) -> Secret | None:
    """The secret resource that a container takes variables from; None is reported, or cannot be read."""
    resource = workload.resources.get(name)
    if resource is not None and isinstance(resource.what, Secret):
        return resource.what
    if resource is None or resource.what is not None:
        draft.problem((*container.path, "envFrom"), f"{name} is not a declared secret resource")
    return None


def _volume(mount: Mount, workload: Workload, draft: Draft) -> Volume | None:
    """The volume that is mounted; None is reported, or cannot be read."""
    resource = workload.resources.get(mount.resource)
    if resource is not None and isinstance(resource.what, Volume):
        return resource.what
    if resource is None or resource.what is not None:
        known = [each.name for each in workload.resources.values() if isinstance(each.what, Volume)]
        draft.problem(
            mount.path,
            f"{mount.resource} is not a declared volume; declared: {', '.join(sorted(known)) or 'none'}",
        )
    return None


def _file(
    file: File,
    container: Container,
    workload: Workload,
    draft: Draft,
    secrets: Secrets,
    volumes: dict[str, Object],
) -> Object | None:
    key = _key(file.target)
    base = f"{workload.name}-{container.name}-files"
    if file.binary is not None:
        made = draft.emit("v1", "ConfigMap", f"{base}-bin", (*container.path, "files"))
        mapping(made, "binaryData")[key] = base64.b64encode(file.binary).decode()
        source: Object = {"configMap": {"name": f"{base}-bin"}}
    else:
        values = resolve(file.text or "", workload, draft, file.path, file.expand)
        if any(isinstance(value, SecretKey) for value in values):
            name = secrets.file(container, file, key, values)
            source = {"secret": {"secretName": name}}
            if name is None:
                return None
        else:
            made = draft.emit("v1", "ConfigMap", base, (*container.path, "files"))
            mapping(made, "data")[key] = "".join(str(value) for value in values)
            source = {"configMap": {"name": base}}
    item: Object = {"key": key, "path": key}
    if file.mode is not None:
        item["mode"] = file.mode
    next(iter(source.values()))["items"] = [item]
    volume = f"file-{hashlib.sha256(f'{container.name} {file.target}'.encode()).hexdigest()[:10]}"
    volumes[volume] = {"name": volume, **source}
    return {"name": volume, "mountPath": file.target, "subPath": key, "readOnly": True}


def _mount(
    mount: Mount, workload: Workload, facts: Facts, draft: Draft, volumes: dict[str, Object]
) -> Object | None:
    if not mount.resource:
        name = f"dir-{hashlib.sha256(str(mount.path).encode()).hexdigest()[:10]}"
        empty: Object = {}
        if mount.medium:
            empty["medium"] = mount.medium
        if mount.size_limit:
            empty["sizeLimit"] = mount.size_limit
        volumes[name] = {"name": name, "emptyDir": empty}
    else:
        volume = _volume(mount, workload, draft)
        if volume is None:
            return None
        claim = _claim(workload.resources[mount.resource], volume, workload, facts, draft)
        if claim is None:
            return None
        name = f"claim-{hashlib.sha256(mount.resource.encode()).hexdigest()[:10]}"
        volumes[name] = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    made: Object = {"name": name, "mountPath": mount.target}
    if mount.sub_path:
        made["subPath"] = mount.sub_path
    if mount.read_only:
        made["readOnly"] = True
    return made


def _claim(resource: Resource, volume: Volume, workload: Workload, facts: Facts, draft: Draft) -> str | None:
    """The name of the PersistentVolumeClaim: the workload's own, or one whose owner admits the workload."""
    if volume.size:
        name = f"vol-{volume.id}" if volume.id else f"{workload.name}-{resource.name}"
        claim = draft.emit(
            "v1",
            "PersistentVolumeClaim",
            name,
            resource.path,
            spec={
                "accessModes": [volume.access_mode],
                "resources": {"requests": {"storage": volume.size}},
            },
        )
        if volume.consumers:
            claim["metadata"]["annotations"] = {names.ALLOWED_CONSUMERS: ",".join(volume.consumers)}
        if volume.storage_class:
            claim["spec"]["storageClassName"] = volume.storage_class
        return name
    if not volume.id:
        draft.problem(
            (*resource.path, "params", "size"),
            "is missing: a volume has a size, which makes this job its owner, or the id of another's volume",
            patch="params:\n  size: 10Gi",
        )
        return None
    key = f"{volume.namespace}/{volume.id}"
    draft.origin(VOLUME, key, resource.path)
    if volume.namespace != workload.namespace:
        draft.problem(
            (*resource.path, "namespace"),
            f"is {volume.namespace}; a pod mounts volumes of its own namespace only ({workload.namespace})",
        )
        return None
    shared = facts.volumes.get((volume.namespace, volume.id))
    me = f"{workload.namespace}/{workload.name}"
    if shared is None:
        draft.problem(
            resource.path,
            f"no volume {key} is shared; its owner declares it with a size and allowedConsumers",
            patch=f"# on its PersistentVolumeClaim, by its owner\nmetadata:\n  annotations:\n"
            f"    {names.ALLOWED_CONSUMERS}: {me}",
        )
        return None
    if not admits(shared.consumers, workload.namespace, workload.name):
        draft.problem(
            resource.path,
            f"volume access denied: {key!r}: its owner does not admit {me}",
            patch=f"# on the PersistentVolumeClaim {shared.claim}, by its owner\nmetadata:\n  annotations:\n"
            f"    {names.ALLOWED_CONSUMERS}: {','.join([*shared.consumers, me])}",
        )
        return None
    return shared.claim


def _security(container: Container) -> Object:
    asked = container.security
    made: Object = {
        "allowPrivilegeEscalation": asked.allow_privilege_escalation,
        "capabilities": {},
        "readOnlyRootFilesystem": asked.read_only_root,
        "runAsNonRoot": asked.run_as_non_root,
        "seccompProfile": _profile(asked.seccomp, asked.seccomp_file),
        "appArmorProfile": _profile(asked.apparmor, asked.apparmor_file),
    }
    if asked.drop_capabilities:
        made["capabilities"]["drop"] = list(asked.drop_capabilities)
    if asked.capabilities:
        made["capabilities"]["add"] = list(asked.capabilities)
    if asked.privileged:
        made["privileged"] = True
    if asked.run_as_user is not None:
        made["runAsUser"] = asked.run_as_user
    if asked.run_as_group is not None:
        made["runAsGroup"] = asked.run_as_group
    return made


def _profile(type_: str, file: str) -> Object:
    return {"type": type_, "localhostProfile": file} if type_ == "Localhost" else {"type": type_}


def _gpus(spec: Object, workload: Workload, volumes: dict[str, Object]) -> None:
    """What a resource of type gpu adds: limits, the node's product, tolerations and shared memory."""
    gpus = [each.what for each in workload.resources.values() if isinstance(each.what, Gpu)]
    for gpu in gpus:
        for container in spec.get("containers", []):
            if not gpu.shared:  # schedulers differ in how a share is requested
                limits = container.setdefault("resources", {}).setdefault("limits", {})
                limits.setdefault(GPU, str(gpu.count))
            mounts = container.setdefault("volumeMounts", [])
            if not any(mount["mountPath"] == "/dev/shm" for mount in mounts):
                mounts.append({"name": "shm", "mountPath": "/dev/shm"})
                volumes["shm"] = {"name": "shm", "emptyDir": {"medium": "Memory"}}
        if gpu.runtime_class:
            spec["runtimeClassName"] = gpu.runtime_class
        if gpu.model:
            spec.setdefault("nodeSelector", {})[GPU_PRODUCT] = gpu.model
        spec.setdefault("tolerations", []).extend(each.object for each in gpu.tolerations or (GPU_TAINT,))


def _once(container: Container, mounts: list[Object], draft: Draft) -> None:
    seen: set[str] = set()
    for mount in mounts:
        target = str(mount["mountPath"])
        if target in seen:
            draft.problem(
                container.path, f"{target} is mounted twice; give each file and volume its own path"
            )
        seen.add(target)


def _key(target: str) -> str:
    """A key of a ConfigMap or Secret for a path: readable, and different for different paths."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", target.rpartition("/")[2])[:60] or "file"
    return f"{readable.strip('.-') or 'file'}-{hashlib.sha256(target.encode()).hexdigest()[:8]}"

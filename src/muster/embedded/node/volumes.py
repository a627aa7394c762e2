"""Volumes of pods: created before a pod's first container starts, removed when the pod is gone.

configMap, secret, downwardAPI, projected and emptyDir become directories of the pod; a hostPath is the path
that it names. With namespaces, volumes are mounted at their `mountPath`. Without, a path that does not exist
becomes a link to the volume, which works as long as no two pods want different volumes at one path.
All directories are private to the user. What is in memory is below a directory of the pod in /dev/shm, where
every user may write: its name cannot be guessed, and a link in the pod's own directory says it.
Files of configMaps and secrets stay as they were when the pod started: they are not updated in place.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from muster.api.base import Object
from muster.api.core_v1 import Container, Pod
from muster.embedded.node.environment import (
    Lookup,
    Unavailable,
    config_map_entries,
    field,
    resource,
    secret_entries,
)
from muster.embedded.node.mounts import Bind

_MEMORY: Final = Path("/dev/shm")
#: The link beside a pod's volumes to its directory in memory. No volume has this name: a name has no dot.
_MEMORY_LINK: Final = ".memory"


def prepare(pod: Pod, directory: Path, lookup: Lookup, umask: int = 0o022) -> dict[str, Path]:
    """Creates all volumes of the pod below `directory`; returns their paths by name.

    A hostPath that has to be made gets the mode that the user's own programs would give it, with `umask`.

    A second call changes only the files of configMaps and secrets. Raises Unavailable for an object that does
    not exist (yet) or a volume that is not supported, and OSError if the machine refuses an operation.
    """
    sources = {}
    for volume in pod.spec.volumes:
        name = volume["name"]
        if "hostPath" in volume:
            sources[name] = _host_path(name, volume["hostPath"], umask)
        elif "emptyDir" in volume:
            sources[name] = _empty_dir(name, volume["emptyDir"] or {}, directory)
        else:
            sources[name] = _files(directory / name, _entries(pod, name, volume, lookup))
    return sources


def remove(directory: Path) -> None:
    """Removes what `prepare` created; hostPaths stay."""
    memory = _in_memory(directory)
    if memory is not None:
        shutil.rmtree(memory, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)


def empty_dir(volume: Object, directory: Path) -> Path | None:
    """The path of an emptyDir that `prepare` has made below `directory`; None if it is not there."""
    base = _in_memory(directory) if _wants_memory(volume["emptyDir"]) else directory
    return None if base is None else base / volume["name"]


def binds(container: Container, sources: Mapping[str, Path], env: Mapping[str, str]) -> list[Bind]:
    """The bind mounts of one container. Raises Unavailable."""
    result = []
    for mount in container.volume_mounts:
        name, target = mount["name"], mount["mountPath"]
        if not os.path.isabs(target):
            raise Unavailable(f"volumeMount {target}: write an absolute path")
        if name not in sources:
            raise Unavailable(f"volumeMount {target}: the pod has no volume {name!r}")
        source = sources[name]
        sub_path = mount.get("subPath") or _expanded(mount.get("subPathExpr", ""), env)
        if sub_path:
            source = _below(source, sub_path, target)
        result.append(Bind(str(source), os.path.normpath(target), bool(mount.get("readOnly"))))
    return result


class Links:
    """Links instead of mounts, without namespaces: a path links to its volume while any pod holds it."""

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = {}  # link → uids

    def hold(self, pod_uid: str, wanted: Sequence[Bind]) -> None:
        """Creates the missing links. Raises Unavailable if a path is in use."""
        for bind in wanted:
            if bind.target == str(_MEMORY):
                continue  # the target is in memory anyway
            if os.path.realpath(bind.target) != os.path.realpath(bind.source):
                _make(bind)
            if os.path.islink(bind.target):
                self._holders.setdefault(bind.target, set()).add(pod_uid)

    def release(self, pod_uid: str) -> None:
        """Removes the links that no other pod holds."""
        for path in [path for path, holders in self._holders.items() if pod_uid in holders]:
            self._holders[path].discard(pod_uid)
            if not self._holders[path]:
                del self._holders[path]
                if os.path.islink(path):
                    os.unlink(path)


def _make(bind: Bind) -> None:
    if os.path.lexists(bind.target):
        raise Unavailable(
            f"volumeMount {bind.target}: the path exists and cannot be mounted over without namespaces"
        )
    try:
        os.makedirs(os.path.dirname(bind.target), exist_ok=True)
        os.symlink(bind.source, bind.target)
    except OSError as error:
        raise Unavailable(
            f"volumeMount {bind.target}: cannot be made without namespaces: {error.strerror}; "
            "choose a path that you may write"
        ) from None


def _expanded(text: str, env: Mapping[str, str]) -> str:
    for name, value in env.items():
        text = text.replace(f"$({name})", value)
    return text


def _below(source: Path, sub_path: str, target: str) -> Path:
    if os.path.isabs(sub_path) or ".." in Path(sub_path).parts:
        raise Unavailable(f"volumeMount {target}: subPath {sub_path!r} must stay within the volume")
    path = source / sub_path
    try:
        if not path.exists():
            path.mkdir(parents=True)
    except OSError as error:
        raise Unavailable(f"volumeMount {target}: {error}") from None
    return path


_HOST_PATH_TYPES: Final = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


def _host_path(name: str, source: Object, umask: int) -> Path:
    path, kind = Path(source["path"]), source.get("type", "")
    if not path.is_absolute():
        raise Unavailable(f"volume {name}: hostPath {path}: write an absolute path")
    exists = path.exists()
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
        kind = "Directory"
    elif kind == "FileOrCreate":
        path.touch(exist_ok=True)
        kind = "File"
    if not exists and path.exists():
        path.chmod((0o777 if kind == "Directory" else 0o666) & ~umask)
    if not path.exists():
        raise Unavailable(f"volume {name}: hostPath {path} does not exist")
    if kind and kind not in _HOST_PATH_TYPES:
        known = ", ".join((*_HOST_PATH_TYPES, "DirectoryOrCreate", "FileOrCreate"))
        raise Unavailable(f"volume {name}: unknown hostPath type {kind!r}; choose from {known}")
    if kind and not _HOST_PATH_TYPES[kind](path.stat().st_mode):
        raise Unavailable(f"volume {name}: hostPath {path} is not a {kind}")
    return path


def _empty_dir(name: str, source: Object, directory: Path) -> Path:
    path = (_memory(directory) if _wants_memory(source) else directory) / name
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _wants_memory(source: Object) -> bool:
    return source.get("medium") == "Memory" and _MEMORY.is_dir()


def _memory(directory: Path) -> Path:
    """The pod's directory in memory, which is made if it does not exist (any more, after a reboot)."""
    found = _in_memory(directory)
    if found is None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = Path(tempfile.mkdtemp(prefix="muster-", dir=_MEMORY))
        link = directory / _MEMORY_LINK
        link.unlink(missing_ok=True)
        link.symlink_to(found)
    return found


def _in_memory(directory: Path) -> Path | None:
    """What the pod's link leads to, if that is a private directory of this user."""
    try:
        path = (directory / _MEMORY_LINK).readlink()
        found = path.lstat()
    except OSError:
        return None
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return path if own and path.parent == _MEMORY else None


#: Files of a volume: relative path → content and mode.
Files = dict[str, tuple[bytes, int]]


def _entries(pod: Pod, name: str, volume: Object, lookup: Lookup) -> Files:
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            source = volume[kind]
            return _source(pod, name, kind, source, source.get("defaultMode", 0o644), lookup)
    if "projected" in volume:
        files: Files = {}
        mode = volume["projected"].get("defaultMode", 0o644)
        for part in volume["projected"].get("sources", []):
            for kind, source in part.items():
                files |= _source(pod, name, kind, source, mode, lookup)
        return files
    kinds = ", ".join(key for key in volume if key != "name") or "nothing"
    raise Unavailable(
        f"volume {name}: {kinds} is not offered on the embedded cluster; choose from configMap, secret, "
        "emptyDir, hostPath, downwardAPI, projected"
    )


def _source(pod: Pod, name: str, kind: str, source: Object, mode: int, lookup: Lookup) -> Files:
    if kind == "downwardAPI":
        return {
            item["path"]: (_downward(pod, item), item.get("mode", mode)) for item in source.get("items", ())
        }
    if kind == "configMap":
        object_name, found = source.get("name", ""), config_map_entries(lookup, source.get("name", ""))
    elif kind == "secret":
        object_name = source.get("secretName") or source.get("name", "")
        found = secret_entries(lookup, object_name)
    else:
        raise Unavailable(f"volume {name}: projected {kind} is not offered on the embedded cluster")
    if found is None:
        if source.get("optional"):
            return {}
        raise Unavailable(f"volume {name}: {kind.lower()} {object_name!r} not found")
    if "items" not in source:
        return {key: (content, mode) for key, content in found.items()}
    missing = [item["key"] for item in source["items"] if item["key"] not in found]
    if missing and not source.get("optional"):
        raise Unavailable(f"volume {name}: {kind.lower()} {object_name!r} has no key {missing[0]!r}")
    return {
        item["path"]: (found[item["key"]], item.get("mode", mode))
        for item in source["items"]
        if item["key"] in found
    }


def _downward(pod: Pod, item: Object) -> bytes:
    if "fieldRef" in item:
        return field(pod, item["fieldRef"]["fieldPath"]).encode()
    reference = item["resourceFieldRef"]
    return resource(pod, pod.spec.containers[0], reference, {}).encode()


def _files(directory: Path, files: Files) -> Path:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for relative, (content, mode) in files.items():
        if os.path.isabs(relative) or ".." in Path(relative).parts:
            raise Unavailable(f"path {relative!r} must stay within its volume")
        path = directory / relative
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        path.chmod(mode & 0o777)
    return directory

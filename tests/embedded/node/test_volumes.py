"""Volumes as files, without any process."""

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from muster.api.base import ObjectMeta
from muster.api.core_v1 import ConfigMap, Container, Pod, PodSpec, Secret
from muster.embedded.node.environment import Lookup, Unavailable
from muster.embedded.node.mounts import Bind
from muster.embedded.node.volumes import Links, binds, prepare, remove

LOOKUP = Lookup(
    {"conf": ConfigMap(data={"a": "A", "b": "B"})}.get, {"sec": Secret(data={"s": "c2VjcmV0"})}.get
)


def pod(volume: dict[str, Any]) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", uid="u-test"), spec=PodSpec(volumes=[{"name": "v", **volume}]))


def files(path: Path) -> dict[str, tuple[str, int]]:
    return {
        str(each.relative_to(path)): (each.read_text(), stat.S_IMODE(each.stat().st_mode))
        for each in path.rglob("*")
        if each.is_file()
    }


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"configMap": {"name": "conf"}}, {"a": ("A", 0o644), "b": ("B", 0o644)}),
        (
            {"configMap": {"name": "conf", "items": [{"key": "a", "path": "x/y", "mode": 0o600}]}},
            {"x/y": ("A", 0o600)},
        ),
        ({"secret": {"secretName": "sec", "defaultMode": 0o400}}, {"s": ("secret", 0o400)}),
        ({"secret": {"secretName": "none", "optional": True}}, {}),
        (
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": ("p", 0o644)},
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "sec"}},
                        {"configMap": {"name": "conf", "items": [{"key": "a", "path": "a"}]}},
                    ]
                }
            },
            {"s": ("secret", 0o644), "a": ("A", 0o644)},
        ),
        ({"emptyDir": {}}, {}),
    ],
)
def test_contents(tmp_path: Path, volume: dict[str, Any], expected: dict[str, tuple[str, int]]) -> None:
    for _ in range(2):  # again after a restart of muster
        assert files(prepare(pod(volume), tmp_path / "u", LOOKUP)["v"]) == expected
    remove(tmp_path / "u")
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, "configmap 'none' not found"),
        ({"configMap": {"name": "conf", "items": [{"key": "z", "path": "z"}]}}, "has no key 'z'"),
        ({"configMap": {"name": "conf", "items": [{"key": "a", "path": "../z"}]}}, "must stay within"),
        ({"hostPath": {"path": "/no/such"}}, "hostPath /no/such does not exist"),
        ({"hostPath": {"path": "/etc/passwd", "type": "Directory"}}, "/etc/passwd is not a Directory"),
        ({"hostPath": {"path": "/etc", "type": "Folder"}}, "unknown hostPath type 'Folder'"),
        ({"nfs": {"server": "s"}}, "nfs is not offered"),
    ],
)
def test_a_volume_that_cannot_be_made_is_named(tmp_path: Path, volume: dict[str, Any], message: str) -> None:
    with pytest.raises(Unavailable) as caught:
        prepare(pod(volume), tmp_path, LOOKUP)
    assert message in str(caught.value)


MEMORY = pod({"emptyDir": {"medium": "Memory"}})


def test_memory_is_in_memory_and_goes_too(tmp_path: Path) -> None:
    source = prepare(MEMORY, tmp_path, LOOKUP)["v"]
    assert source.is_relative_to("/dev/shm")
    assert prepare(MEMORY, tmp_path, LOOKUP)["v"] == source
    remove(tmp_path)
    assert not source.parent.exists()


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_volumes_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    secret = pod({"secret": {"secretName": "sec", "items": [{"key": "s", "path": "x/y"}]}})
    before = os.umask(umask)
    try:
        memory = prepare(MEMORY, tmp_path / "m", LOOKUP)["v"]
        empty = prepare(pod({"emptyDir": {}}), tmp_path / "e", LOOKUP)["v"]
        files = prepare(secret, tmp_path / "s", LOOKUP)["v"]
    finally:
        os.umask(before)
    assert stat.S_IMODE((files / "x/y").stat().st_mode) == 0o644, "as the pod asked for"
    for path in (memory, memory.parent, empty, files, files / "x"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    remove(tmp_path / "m")


def test_memory_that_is_not_the_pods_own_is_not_used(tmp_path: Path) -> None:
    """After a reboot, another user can make a directory of the name that the link has."""
    first = prepare(MEMORY, tmp_path, LOOKUP)["v"]
    first.parent.chmod(0o777)
    second = prepare(MEMORY, tmp_path, LOOKUP)["v"]
    assert second.parent != first.parent
    remove(tmp_path)
    assert first.exists()
    assert not second.exists()
    shutil.rmtree(first.parent)


def test_sub_paths(tmp_path: Path) -> None:
    mounts = [{"name": "v", "mountPath": "/data/", "subPathExpr": "$(N)/x", "readOnly": True}]
    found = binds(Container("c", volume_mounts=mounts), {"v": tmp_path}, {"N": "n"})
    assert found == [Bind(f"{tmp_path}/n/x", "/data", True)]
    for mount in ({"name": "v", "mountPath": "/d", "subPath": "../x"}, {"name": "w", "mountPath": "/d"}):
        with pytest.raises(Unavailable):
            binds(Container("c", volume_mounts=[mount]), {"v": tmp_path}, {})


def test_a_link_goes_with_its_last_holder(tmp_path: Path) -> None:
    links, target = Links(), tmp_path / "deep/data"
    bind = Bind(str(tmp_path), str(target))
    links.hold("one", [bind])
    links.hold("two", [bind])
    links.release("one")
    assert target.is_symlink()
    with pytest.raises(Unavailable, match="the path exists"):
        links.hold("three", [Bind("/etc", str(target))])
    links.release("two")
    assert not target.is_symlink()

"""The directories of a job follow its record, and nothing that a user writes chooses what is removed."""

import os
from pathlib import Path

import pytest

from muster.api.base import ObjectMeta, OwnerReference
from muster.api.core_v1 import Pod
from muster.embedded.directories import YOUNG, Named, Used, checkpoints, copies, job_of, of_job, sweep
from muster.names import RETRY_OF, SUBMITTED_FROM
from muster.workloads.jobfile import Source
from muster.workloads.retry import Retry

COPY = "0123456789abcdef"


def made(path: Path | None) -> Path:
    assert path is not None
    path.mkdir(parents=True)
    (path / "file").touch()
    os.utime(path, (0, 0))
    return path


def test_a_pod_belongs_to_its_jobset_its_controller_or_itself() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/jobset-uid": "1"}
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="2", controller=True)
    meta = ObjectMeta(name="p", namespace="ns", uid="3", labels=labels, owner_references=[owner])
    assert job_of(Pod(metadata=meta)) == Named("ns", "js", "1")
    meta = ObjectMeta(name="p", namespace="ns", uid="3", owner_references=[owner])
    assert job_of(Pod(metadata=meta)) == Named("ns", "j", "2")
    assert job_of(Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="3"))) == Named("ns", "p", "3")


@pytest.mark.parametrize("odd", ["..", "a/b", "", "a\n", "../x"])
def test_names_that_are_no_path_have_no_directory(tmp_path: Path, odd: str) -> None:
    assert checkpoints(tmp_path, Named("ns", odd, "1")) is None
    assert checkpoints(tmp_path, Named(odd, "a", "1")) is None


def test_those_of_a_job_that_exist(tmp_path: Path) -> None:
    meta = ObjectMeta(name="j", namespace="ns", uid="1")
    copy = copies(tmp_path) / COPY
    assert of_job(tmp_path, meta, str(copy)) == []
    both = [made(checkpoints(tmp_path, Named("ns", "j", "1"))), made(copy)]
    assert of_job(tmp_path, meta, str(copy)) == both
    outside = made(tmp_path / "precious" / COPY)
    for odd in (str(outside), str(copies(tmp_path)), f"{copies(tmp_path)}/../precious", "/"):
        assert of_job(tmp_path, meta, odd) == both[:1]


def test_directories_without_a_record_go_once_they_are_old(tmp_path: Path) -> None:
    kept = [made(checkpoints(tmp_path, Named("ns", "j", "1"))), made(copies(tmp_path) / COPY)]
    gone = [made(checkpoints(tmp_path, Named("ns", "j", "2"))), made(copies(tmp_path) / ("f" * 16))]
    others = [made(copies(tmp_path) / "mine"), made(tmp_path / "logs" / "ns" / "j.3")]
    used = Used({"1"}, {COPY})
    assert sweep(tmp_path, used, YOUNG - 1) == []
    assert sweep(tmp_path, used, YOUNG + 1) == gone
    assert all(path.is_dir() for path in [*kept, *others])
    assert not any(path.exists() for path in gone)


@pytest.mark.parametrize("odd", ["", "null", "[" * 9, '{"name":"j"}', "x" * 100_000])
def test_a_retry_uses_what_the_first_job_does(tmp_path: Path, odd: str) -> None:
    copy = copies(tmp_path) / COPY
    marks = {SUBMITTED_FROM: Source("f", "me@here", copy=str(copy)).annotation()}
    first = checkpoints(tmp_path, Named("ns", "j", "1"))
    assert first is not None
    assert Used.by([("2", {**marks, RETRY_OF: Retry("j", "1").annotation()})]) == ({"1", "2"}, {COPY})
    used = Used.by([("1", {SUBMITTED_FROM: odd, RETRY_OF: odd})])
    assert used.holds(first)
    assert not used.holds(copy)


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    precious = made(tmp_path / "precious")
    copies(tmp_path).mkdir()
    (copies(tmp_path) / COPY).symlink_to(precious)
    assert sweep(tmp_path, Used(set(), set()), 2 * YOUNG) == []
    assert (precious / "file").exists()

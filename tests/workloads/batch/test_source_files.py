"""Files that a job names by `source`: those beside it, and no others."""

import base64
from pathlib import Path

import pytest
import yaml

from muster.workloads.findings import JobFileError
from muster.workloads.load import load
from tests.workloads.batch.jobs import parsed, small


def objects(directory: Path, files: dict[str, object]) -> dict[str, dict[str, object]]:
    """The objects of a job file in this directory, by kind; a ConfigMap of binary files as `Binary`."""
    file = directory / "job.yaml"
    file.write_text(small({"files": files}))
    return {"Binary" if "binaryData" in each else each["kind"]: each for each in load(file).objects}


def test_text_is_expanded_and_other_content_kept_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "app.ini").write_text("name=${metadata.name}")
    (tmp_path / "model.bin").write_bytes(b"\x00\xff${x}")
    made = objects(
        tmp_path, {"/app.ini": {"source": "etc/app.ini"}, "/model": {"source": "./model.bin", "mode": "0400"}}
    )
    assert list(made["ConfigMap"]["data"].values()) == ["name=job"]  # type: ignore[attr-defined]
    [content] = made["Binary"]["binaryData"].values()  # type: ignore[attr-defined]
    assert base64.b64decode(content) == b"\x00\xff${x}"


def test_placeholders_may_be_kept(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("${HOME}")
    made = objects(tmp_path, {"/a": {"source": "a", "noExpand": True}})
    assert list(made["ConfigMap"]["data"].values()) == ["${HOME}"]  # type: ignore[attr-defined]


def test_placeholders_may_be_exchanged_with_their_escapes(tmp_path: Path) -> None:
    made = objects(tmp_path, {"/a": {"content": "${HOME} $${metadata.name}", "reverseExpand": True}})
    assert list(made["ConfigMap"]["data"].values()) == ["${HOME} job"]  # type: ignore[attr-defined]


REFUSED = [
    ("../secret", "is outside of the job file's directory"),
    ("/etc/passwd", "is outside of the job file's directory"),
    ("link", "is outside of the job file's directory"),
    ("missing", "is not a file"),
    (".", "is not a file"),
    ("pipe", "is not a file"),
    ("large", "is larger than 512 KiB"),
    ("loop", ""),
]


@pytest.mark.parametrize(("source", "reason"), REFUSED)
def test_only_files_in_the_directory_of_the_job_file_are_read(
    tmp_path: Path, source: str, reason: str
) -> None:
    import os

    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_text("hidden")
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "loop").symlink_to(home / "loop")
    (home / "large").write_bytes(b"x" * (2**19 + 1))
    os.mkfifo(home / "pipe")
    with pytest.raises(JobFileError) as caught:
        objects(home, {"/a": {"source": source}})
    [finding] = caught.value.findings
    assert reason in finding.message
    assert finding.field.endswith("source")
    assert "hidden" not in str(caught.value)


def test_a_path_with_a_nul_character_is_refused_where_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match=r"job\.yaml:\d+: has a NUL character in a text"):
        objects(tmp_path, {"/a": {"source": "a\0b"}})


def test_nothing_is_beside_a_job_of_a_cluster_or_from_a_pipe(tmp_path: Path) -> None:
    text = small({"files": {"/a": {"source": "a"}}})
    _, [finding] = parsed(text)
    assert "no files are beside this job" in finding.message
    with pytest.raises(JobFileError, match="no files are beside this job"):
        load("standard input", text=text)


def test_files_that_no_config_map_holds_together_are_one_error(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text("x" * 2**19)
    with pytest.raises(JobFileError, match="holds 1 MiB") as caught:
        objects(tmp_path, {f"/{name}": {"source": name} for name in "abc"})
    assert len(caught.value.findings) == 1
    assert yaml.safe_load((tmp_path / "job.yaml").read_text())


def test_a_source_is_beside_the_job_file_wherever_muster_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, elsewhere = tmp_path / "jobs", tmp_path / "elsewhere"
    for directory in (jobs, elsewhere):
        directory.mkdir()
        (directory / "a").write_text(directory.name)
    monkeypatch.chdir(elsewhere)
    made = objects(Path("../jobs"), {"/a": {"source": "a"}})
    assert list(made["ConfigMap"]["data"].values()) == ["jobs"]  # type: ignore[attr-defined]

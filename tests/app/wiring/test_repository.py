"""What is found out about a repository, which may be hostile, and what a copy of its directory contains."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.app.wiring import repository
from muster.app.wiring.repository import State, TooLarge, copy, state
from tests.patience import PATIENCE

Git = Callable[..., None]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Runs git in the repository `tmp_path`, which has a committed file."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(repository, "PATIENCE", PATIENCE)

    def git(*words: str) -> None:
        own = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "train.py").write_text("1")
    (tmp_path / ".gitignore").write_text("*.bin\nhome\n")
    git("add", "train.py", ".gitignore")
    git("commit", "-m", "one")
    return git


def found(tmp_path: Path) -> State:
    return state(tmp_path, PATIENCE)


def test_the_commit_and_whether_it_is_changed(tmp_path: Path, git: Git) -> None:
    (tmp_path / "untracked").touch()
    clean = found(tmp_path)
    assert len(clean.commit) == 40
    assert clean.dirty is False
    (tmp_path / "train.py").write_text("2")
    (tmp_path / "sub").mkdir()
    assert found(tmp_path / "sub") == State(clean.commit, True)


def test_no_repository_and_none_with_a_commit(tmp_path: Path) -> None:
    assert found(tmp_path) == State()
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert found(tmp_path) == State()


def test_without_git_nothing_is_known(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nosuch")
    assert found(tmp_path) == State()


@pytest.mark.parametrize("name", ["evil", "a=b", 'quo"te'])
def test_no_program_of_a_hostile_repository_runs(tmp_path: Path, git: Git, name: str) -> None:
    """Neither filters, whatever their names, nor hooks, monitors and transports."""
    witness = tmp_path / "ran.bin"
    program = tmp_path / "program.bin"
    program.write_text(f"#!/bin/sh\ntouch {witness}\ncat\n")
    program.chmod(0o755)
    hooks = tmp_path / ".git" / "hooks"
    for hook in ("post-index-change", "fsmonitor-watchman", "query-watchman"):
        (hooks / hook).write_text(program.read_text())
        (hooks / hook).chmod(0o755)
    for key in (
        *(f"filter.{name}.{each}" for each in ("clean", "smudge", "process")),
        *("core.fsmonitor", "core.sshCommand", "diff.external", "core.pager", "core.editor"),
        *("diff.x.textconv", "diff.x.command", "core.alternateRefsCommand"),
    ):
        git("config", key, str(program))
    git("config", f"filter.{name}.required", "true")
    git("config", "status.submoduleSummary", "true")
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "attributes").write_text(f"* filter={name} diff=x\n")
    (tmp_path / "train.py").write_text("2")  # of the same size: git has to read it
    assert found(tmp_path).dirty
    copy(tmp_path, tmp_path / "home" / "copy")
    assert not witness.exists()


def test_a_repository_is_not_changed(tmp_path: Path, git: Git) -> None:
    (tmp_path / "train.py").touch()
    before = (tmp_path / ".git" / "index").stat().st_mtime_ns
    found(tmp_path)
    assert (tmp_path / ".git" / "index").stat().st_mtime_ns == before


def test_what_takes_too_long_is_unknown(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a repository with a million files, and nothing is left behind."""
    slow = tmp_path / "home" / "bin"
    slow.mkdir(parents=True)
    (slow / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    began = time.monotonic()
    assert state(tmp_path, 0.05) == State()
    assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize(
    ("version", "known"),
    [
        *(("git version 2.30.9", False), ("git version 1.8.3.1", False), ("git version", False), ("", False)),
        *(("git version 2.31.0", True), ("git version 2.50.1 (Apple Git-155)", True)),
        *(("git version 3.0.rc1", True), ("git version 2.31.GIT", True)),
    ],
)
def test_a_git_that_runs_what_a_repository_names_is_not_used(
    tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch, version: str, known: bool
) -> None:
    """Before 2.31 it ignores the variables that switch filters off. All files are copied then."""
    old, used, real = tmp_path / "home" / "bin", tmp_path / "home" / "used", shutil.which("git")
    old.mkdir(parents=True)
    script = f'[ "$1" != version ] || exec echo "{version}"\ntouch {used}\nexec {real} "$@"\n'
    (old / "git").write_text(f"#!/bin/sh\n{script}")
    (old / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}:{os.environ['PATH']}")
    (tmp_path / "data.bin").write_text("ignored")
    assert bool(found(tmp_path).commit) == known
    sub, to = tmp_path / "sub", tmp_path / "home" / "copy"
    sub.mkdir()
    (sub / "data.bin").touch()
    (sub / "new.py").touch()
    copy(sub, to)
    assert names(to) == ({"new.py"} if known else {"new.py", "data.bin"})
    assert used.exists() == known


def test_an_answer_without_end_is_cut(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "home" / "bin"
    slow.mkdir(parents=True)
    (slow / "git").write_text('#!/bin/sh\n[ "$1" != version ] || exec echo git version 2.31.0\nexec yes\n')
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    monkeypatch.setattr(repository, "_MOST_LISTED", 1000)
    with pytest.raises(TooLarge, match="more than 50,000 files or 2 GiB that git does not ignore"):
        copy(tmp_path, tmp_path / "home" / "copy")


def names(directory: Path) -> set[str]:
    return {
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def test_a_copy_has_tracked_and_unignored_files_as_they_are(tmp_path: Path, git: Git) -> None:
    (tmp_path / "train.py").write_text("edited")
    (tmp_path / "data.bin").write_text("large")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "new.py").write_text("")
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    to = tmp_path / "home" / "copy"
    copy(tmp_path, to)
    assert names(to) == {"train.py", ".gitignore", "sub/new.py", "link"}
    assert (to / "train.py").read_text() == "edited"
    assert (to / "link").is_symlink()
    (tmp_path / "train.py").unlink()  # deleted and not committed
    copy(tmp_path, tmp_path / "home" / "other")
    assert "train.py" not in names(tmp_path / "home" / "other")


@pytest.mark.parametrize(
    "now", ["file", "link", "ignored link", "link within", "link to a file", "loop", "pipe", "gone"]
)
@pytest.mark.parametrize("deep", ["data/x", "data/sub/x", "a/data/x"])
def test_what_is_tracked_below_something_else_by_now_is_left_out(
    tmp_path: Path, git: Git, deep: str, now: str
) -> None:
    """Nothing is written through a link, nor read: what the directory led to is outside of the copy."""
    tracked = tmp_path / deep
    tracked.parent.mkdir(parents=True)
    tracked.write_text("tracked")
    git("add", deep)
    git("commit", "-m", "data")
    data = next(each for each in tracked.parents if each.name == "data")
    below = tracked.relative_to(data)
    outside = tmp_path / "home" / "outside"
    (outside / below).parent.mkdir(parents=True)
    (outside / below).write_text("of another")
    shutil.rmtree(data)
    match now:
        case "file":
            data.write_text("a file")
        case "link" | "ignored link":
            data.symlink_to(outside)
        case "link within":
            data.symlink_to("." if deep.startswith("data") else "..")
        case "link to a file":
            data.symlink_to("/etc/passwd")
        case "loop":
            data.symlink_to("data")
        case "pipe":
            os.mkfifo(data)
    if now == "ignored link":
        (tmp_path / ".gitignore").write_text("*.bin\nhome\ndata\n")
    to = tmp_path / "home" / "copy"
    copy(tmp_path, to)
    own = set() if now in ("pipe", "gone", "ignored link") else {str(data.relative_to(tmp_path))}
    assert names(to) == {"train.py", ".gitignore"} | own
    assert (outside / below).read_text() == "of another"


@pytest.mark.parametrize("order", [("data", "data/x"), ("data/x", "data"), ("data", "data")])
@pytest.mark.parametrize("then", ["link", "file"])
def test_a_directory_that_changes_while_it_is_copied_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str], then: str
) -> None:
    """The names are listed; what stands there has changed whenever one is copied."""
    here, outside, to = tmp_path / "here", tmp_path / "outside", tmp_path / "copy"
    outside.mkdir()
    (outside / "x").write_text("of another")

    def become(name: str) -> None:
        data = here / "data"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        if name == "data/x" or seen:
            data.mkdir() if name == "data/x" else data.write_text("plain")
            (data / "x").write_text("plain") if name == "data/x" else None
        elif then == "link":
            data.symlink_to(outside / "x" if order == ("data", "data") else outside)
        else:
            data.write_text("a file")

    seen = list[str]()

    def listed(_: Path) -> Iterator[Path]:
        for name in order:
            become(name)
            seen.append(name)
            yield Path(name)

    monkeypatch.setattr(repository, "_listed", listed)
    monkeypatch.setattr(repository, "_bounded", lambda directory, files: files)
    copy(here, to)
    assert (outside / "x").read_text() == "of another"
    assert names(to) == {order[0]}


@pytest.mark.parametrize("error", [FileNotFoundError, NotADirectoryError, IsADirectoryError])
def test_a_file_that_vanishes_while_it_is_copied_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    here, real = tmp_path / "here", shutil.copy2
    here.mkdir()
    for name in "abc":
        (here / name).touch()

    def vanishing(source: Path, target: Path, **how: bool) -> None:
        if source.name == "b":
            raise error
        real(source, target, **how)

    monkeypatch.setattr(shutil, "copy2", vanishing)
    copy(here, tmp_path / "copy")
    assert names(tmp_path / "copy") == {"a", "c"}


def test_a_directory_without_repository_is_copied_whole(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    (here / "sub" / "a").touch()
    (here / "loop").symlink_to(here)
    copy(here, tmp_path / "copy")
    assert names(tmp_path / "copy") == {"sub/a", "loop"}


@pytest.mark.parametrize(("files", "size"), [(2, 2**30), (100, 3)])
def test_a_copy_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, size: int) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for number in range(3):
        (here / str(number)).write_text("xx")
    monkeypatch.setattr(repository, "MOST_FILES", files)
    monkeypatch.setattr(repository, "MOST_BYTES", size)
    monkeypatch.setattr(repository, "_made", None)  # nothing is copied before
    with pytest.raises(TooLarge, match=r"--copy: .* leave data out by .gitignore, or run without --copy"):
        copy(here, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()

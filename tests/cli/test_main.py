"""Bad input and usage: one clear error, the exit code, never a traceback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.api import kinds
from muster.app.commands.cancel import StillThere
from muster.cli import main as cli
from muster.cli.errors import INTERRUPTED, failure
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import Conflict, Forbidden, Invalid, ServerError, Unanswered, Unreachable
from tests.workloads.batch.jobs import small

Run = Callable[..., tuple[int, str]]
JOB = """name: job
spec:
  operator: jobset
  image: python:3.12
  command: "true"
  types:
    worker:
      count: 2
      resources: {cpus: 1, memory: 1, accelerators: {gpu: {count: 1}}}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process; its exit code and what it says on stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    (tmp_path / "job.yaml").write_text(JOB)

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["muster", *words])
        with pytest.raises(SystemExit) as exit:
            cli.main()
        return int(exit.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("run nosuch.yaml", 2, "nosuch.yaml: cannot be read: No such file or directory"),
        ("run .", 2, ".: cannot be read: Is a directory"),
        ("run", 2, "name a job file, or write a command: muster run -- python3 train.py"),
        ("run job.yaml --volume data", 2, "--volume data: write NAME=DIR"),
        ("run job.yaml --volume data=/nosuch", 2, "/nosuch is not a directory"),
        ("run job.yaml --nodes lots", 2, "'lots' is not KEY=VALUE; write for example"),
        ("run job.yaml --nodes nosuch.yaml", 2, "nosuch.yaml: No such file"),
        ("up --nodes cpu=many", 2, "cpu"),
        ("run job.yaml --kubeconfig job.yaml", 3, "no usable cluster configuration"),
        ("run job.yaml --kubeconfig x --nodes cpu=1", 2, "--nodes is for the embedded cluster"),
        ("list --kubeconfig /nosuch", 3, "no usable cluster configuration"),
        ("list -o xml", 2, "'xml' is not one of"),
        (
            "list -o xml",
            2,
            "Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'wide', 'json', 'yaml'",
        ),
        ("list --state odd", 2, "Invalid value for '--state': 'odd' is not one of 'scheduled'"),
        ("get job", 2, "no job named job; there is none"),
        ("why job", 2, "no job named job"),
        ("timeline job", 2, "no job named job"),
        ("logs job", 2, "no job named job"),
        ("logs -f job", 2, "no job named job"),
        ("cancel job", 2, "no job named job"),
        ("check job.yaml --nodes cpu=1,memory=1Gi", 2, "there are no GPUs here"),
        ("frobnicate", 2, "No such command 'frobnicate'"),
    ],
)
def test_a_wrong_command_line_exits_with_a_message_and_its_code(
    run: Run, words: str, code: int, said: str
) -> None:
    got, err = run(*words.split())
    assert (got, said in err) == (code, True), err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words", ["list", "nodes", "down", "check job.yaml", "--help", "run -h", "--version"]
)
def test_nothing_is_wrong(run: Run, words: str) -> None:
    assert run(*words.split())[0] == 0


@pytest.mark.parametrize(
    "words", ["list", "nodes -o yaml", "nodes -o json", "queues", "topology", "--help", "--version"]
)
def test_a_reader_that_goes_is_no_error(tmp_path: Path, words: str) -> None:
    """As in `muster list | head -1`: the reader has gone when it is written."""
    (tmp_path / "job.yaml").write_text(JOB)
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "muster", *words.split()],
        cwd=tmp_path,
        env={**os.environ, "MUSTER_HOME": str(tmp_path / "home")},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_reported(tmp_path: Path, unbuffered: str) -> None:
    """Once: what a buffer still holds is not tried again at the interpreter's end."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "muster", "list"],
            env={**os.environ, "MUSTER_HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (1, "the input or output failed: No space left on device\n")


def test_a_store_that_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/store.sqlite").write_text("this is not a database, and it is long enough to tell")
    for words in ("list", "timeline job", "up --detach"):
        code, err = run(*words.split())
        assert code == 3
        assert "store.sqlite is not a usable muster store" in err
    assert "move it away" in err


def test_a_home_that_cannot_be_made(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "file/home"))
    for words in ("up", "submit job.yaml"):
        code, err = run(*words.split())
        assert (code, f"{tmp_path}/file/home: Not a directory" in err) == (1, True), err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unreachable("x"), 3),
        (Unanswered("x"), 3),
        (Forbidden("x"), 1),
        (ServerError("the disk is full"), 1),
        (StillThere("x"), 1),
        (Conflict("x"), 1),
        (Invalid("x"), 2),
        (PermissionError(13, "Permission denied", "/file"), 1),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    told = failure(error)
    assert told is not None
    assert told.exit_code == code


@pytest.mark.parametrize("error", [ServerError("x" * 10**6), Unreachable("x" * 10**6)])
def test_no_server_fills_the_screen(error: Exception) -> None:
    assert len(str(failure(error))) < 2_100


def test_a_mistake_of_muster_is_not_hidden() -> None:
    assert failure(KeyError("x")) is None


@pytest.mark.parametrize("module", ["muster.cli.main", "muster.kube.config"], ids=["begin", "error"])
def test_an_interrupt_while_modules_load_is_quiet(module: str, tmp_path: Path) -> None:
    """An error's message needs modules, too."""
    code = f"""if True:
        import sys
        class Interrupt:
            def find_spec(self, name, *others):
                if name == "{module}":
                    raise KeyboardInterrupt
        from muster.__main__ import main
        sys.meta_path.insert(0, Interrupt())
        sys.argv = ["muster", "get", "nosuch"]
        main()
    """
    home = {**os.environ, "MUSTER_HOME": str(tmp_path / "home")}
    done = subprocess.run([sys.executable, "-c", code], env=home, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")


def test_little_is_loaded_before_an_interrupt_is_quiet() -> None:
    code = "import sys, os; known = {*sys.modules}; import muster.__main__; print(*{*sys.modules} - known)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {"muster", "muster.__main__", "muster.version"}


def test_help_needs_little_more_than_typer() -> None:
    """Its cost is what it imports: none of the rooms below."""
    code = "import sys, muster.cli.main; print(*(m for m in sys.modules if m.startswith('muster.')))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert {module.split(".")[1] for module in done.stdout.split()} == {"cli", "version"}


def test_check_answers_programs_about_bad_files_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text, line in (
        ("tab.yaml", "kind: Pod\n\tmetadata: a\n", 2),
        ("bad.yaml", "apiVersion: v1\nkind: Pood\n", 2),
        ("nosuch.yaml", None, 0),
    ):
        if text is not None:
            Path(name).write_text(text)
        monkeypatch.setattr(sys, "argv", ["muster", "check", name, "-o", "json"])
        with pytest.raises(SystemExit) as exit:
            cli.main()
        out, err = capsys.readouterr()
        (finding,) = json.loads(out)["findings"]
        assert (exit.value.code, err) == (2, "")
        assert (finding["severity"], finding["file"], finding["line"]) == ("error", name, line)


def test_warnings_are_errors_where_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, command: [x]%s}]}\n"
    Path("warned.yaml").write_text(pod % "")
    Path("clean.yaml").write_text(pod % ", resources: {requests: {cpu: 1}}")
    assert run("check", "warned.yaml")[0] == 0
    assert run("check", "warned.yaml", "--strict")[0] == 2
    assert run("check", "clean.yaml", "--strict")[0] == 0


def test_a_gang_that_is_too_large_for_any_cluster_is_an_error_of_check(run: Run) -> None:
    text = "spec: {operator: jobset, command: x, scheduling: {mode: gang}, types: {w: {count: %d}}}"
    Path("large.yaml").write_text(text % 50_001)
    Path("fits.yaml").write_text(text % 50_000)
    code, err = run("check", "large.yaml")
    assert code == 2
    assert "50001 pods at once; muster plans at most 50000 for one gang\n" in err
    assert run("check", "fits.yaml")[0] == 0


def test_check_says_what_the_file_alone_does_not_have(run: Run) -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {priorityClassName: gold, "
        "containers: [{name: c, command: [x], resources: {requests: {cpu: 1}}}]}\n"
    )
    Path("gold.yaml").write_text(pod)
    said = "p can never start here: Invalid. PriorityClass gold does not exist"
    code, err = run("check", "gold.yaml")
    assert (code, f"warning: gold.yaml:3: metadata.name: {said} (only this file is considered)" in err) == (
        0,
        True,
    )
    code, err = run("check", "gold.yaml", "--nodes", "1 x cpu=8")
    assert (code, err) == (2, f"error: gold.yaml: {said}\n")


def test_check_takes_several_files_and_judges_each_by_itself(run: Run) -> None:
    Path("large.yaml").write_text(JOB.replace("cpus: 1", "cpus: 9"))
    nodes = ("--nodes", "1 x cpu=4,memory=8Gi,nvidia.com/gpu=4")
    code, err = run("check", "job.yaml", "nosuch.yaml", "large.yaml", *nodes)
    assert code == 2
    assert "nosuch.yaml: cannot be read" in err
    assert [line.split(": ")[1] for line in err.splitlines() if line.startswith("error: ")] == [
        "nosuch.yaml",
        "large.yaml",
    ]
    assert run("check", "job.yaml", "job.yaml", *nodes)[0] == 0


def _jobs(home: Path, *names: str) -> None:
    home.mkdir(exist_ok=True)
    store = Store(home / "store.sqlite")
    registry = Registry(store)
    for name in names:
        spec = {"containers": [{"name": "c", "command": ["true"]}]}
        registry.create(kinds.POD, "default", {"metadata": {"name": name}, "spec": spec})
    store.close()


def test_a_timeline_names_its_job(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _jobs(tmp_path / "home", "train-1", "other")
    monkeypatch.setattr(sys, "argv", ["muster", "timeline", "tr"])
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().out.splitlines()[0] == "train-1"


@pytest.mark.parametrize(
    ("metadata", "data", "code", "said"),
    [
        ("{name: muster-rates}", "{gpu: 5}", 2, "cluster.yaml: ConfigMap muster-rates: data: Expected `str`"),
        ("{name: muster-rates}", '{gpu: "5"}', 0, ""),
        ("[muster-rates]", "5", 0, ""),
    ],
)
def test_check_names_the_file_with_invalid_prices(
    run: Run, tmp_path: Path, metadata: str, data: str, code: int, said: str
) -> None:
    (tmp_path / "p.cedar").write_text("permit (principal, action, resource);")
    (tmp_path / "cluster.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\ndata: {data}\n"
    )
    Path("job.yaml").write_text(small())
    got, err = run("check", "job.yaml", "--policies", str(tmp_path))
    assert (got, said in err) == (code, True), err


CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n"
QUEUE = "apiVersion: muster.dev/v1alpha1\nkind: Queue\nmetadata: {name: default}\nspec: {maxPriority: 7}\n"


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize(
    ("known", "told"),
    [
        ("", ""),
        (CLASS, "lowered to 1000, the most that PriorityClasses allow in namespace default"),
        (CLASS.replace("1000", "5000"), ""),
        (QUEUE, "lowered to 7, maxPriority of queue default"),
    ],
)
def test_check_says_that_a_priority_will_be_lowered(
    run: Run, tmp_path: Path, known: str, told: str, beside: bool
) -> None:
    (tmp_path / "p.cedar").write_text("permit (principal, action, resource);")
    (tmp_path / "cluster.yaml").write_text(known if beside else "")
    pod = (
        'apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {muster.dev/priority: "5000"}}\n'
        "spec: {containers: [{name: c, command: [x], resources: {requests: {cpu: 1}}}]}\n"
    )
    Path("job.yaml").write_text(pod if beside or not known else f"{known}---\n{pod}")
    code, err = run("check", "job.yaml", *(["--policies", str(tmp_path)] if beside else []))
    (said,) = [line for line in err.splitlines() if "lowered" in line] or [""]
    assert (code, told in said, bool(said)) == (0, True, bool(told)), err


def test_logs_of_a_job_that_had_no_pods_say_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    store = Store(tmp_path / "home" / "store.sqlite")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    never = {"metadata": {"name": "never"}, "spec": {"suspend": True, "template": template}}
    Registry(store).create(kinds.JOB, "default", never)
    store.close()
    told = "never has had no pods, so there is no output; `muster why never` says more\n"
    assert run("logs", "never") == (0, told)

"""`muster init` writes job files that run as they are, and never overwrites one."""

import resource
from pathlib import Path

import pytest

from muster.cli.errors import Failure
from muster.cli.init import Shape, command, text_of
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from tests.cli.binary import Muster

#: What stands for the programs that the files name.
PROGRAM = "#!/bin/sh\necho ran\n"


@pytest.mark.parametrize("shape", Shape)
def test_each_shape_is_a_job_file_without_warnings(shape: Shape) -> None:
    job = load("f", Options(suffix="0" * 8), text=text_of(shape))
    assert job.gang is (shape in (Shape.GANG, Shape.COORDINATOR))
    assert not job.notes


def test_each_shape_runs(muster: Muster) -> None:
    (muster.cwd / "bin").mkdir()
    program = muster.cwd / "bin" / "torchrun"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    muster.environ["PATH"] = f"{program.parent}:{muster.environ['PATH']}"
    for name in ("train.py", "coordinator.py", "worker.py"):
        muster.file(name, "print('ran')")
    for shape in Shape:
        told = muster.run("init", shape.value).lines[0]
        assert told == f"{shape.value}.yaml written; edit it, then: muster run {shape.value}.yaml"
        done = muster.run("run", f"{shape.value}.yaml", "--nodes", "cpu=8,memory=16Gi")
        assert "│ ran" in done.out


def test_a_file_is_never_overwritten(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("init") / "job.yaml"
    file.write_text("mine")
    with pytest.raises(Failure, match="exists already; name another file: muster init gang FILE"):
        command(Shape.GANG, str(file))
    assert file.read_text() == "mine"


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"none/job\.yaml cannot be written: No such file or directory"):
        command(Shape.GANG, str(tmp_path / "none" / "job.yaml"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))  # as on a full disk
    try:
        with pytest.raises(Failure, match=r"job\.yaml cannot be written: File too large"):
            command(Shape.GANG, str(tmp_path / "job.yaml"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [*tmp_path.iterdir()]

"""The Dockerfile's steps, run in a clean environment below a directory of the test's: no container engine.

`FROM python` becomes a new virtual environment of this Python, and AT, where the image has muster, a
directory. What a stage does not copy from another is gone before the next stage begins.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import yaml

from muster.api.crd import definitions

ROOT: Final = Path(__file__).parents[2]
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")


@dataclass
class Stage:
    """What the steps of a stage have set."""

    env: dict[str, str]
    directory: Path
    args: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    entrypoint: list[str] = field(default_factory=list)

    def fill(self, text: str) -> str:
        """The text with its variables' values; an unknown one is an error, as it would be an empty text."""
        return _VARIABLE.sub(lambda found: {**self.env, **self.args}[found[1]], text)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The last stage."""
    home = tmp_path_factory.mktemp("image")
    at = home / "at"
    stage = Stage({}, home)
    for word, rest in instructions((ROOT / "Dockerfile").read_text()):
        match word:
            case "FROM":
                stage = Stage(base(home), home)
            case "ARG":
                name, _, default = rest.partition("=")
                stage.args[name] = str(at) if name == "AT" else default.strip('"')
            case "ENV":
                stage.env |= dict(pair.split("=", 1) for pair in stage.fill(rest).split())
            case "WORKDIR":
                stage.directory = Path(stage.fill(rest))
                stage.directory.mkdir(parents=True, exist_ok=True)
            case "COPY" if rest.startswith("--from="):
                _, source, target = stage.fill(rest).split()
                assert source == target == str(at)  # it is there already
                shutil.rmtree(home / "base")
                stage.env |= base(home)
            case "COPY":
                copy(stage.directory, *stage.fill(rest).split())
            case "RUN":
                environ = {**stage.env, **stage.args}
                subprocess.run(["/bin/sh", "-c", rest], cwd=stage.directory, env=environ, check=True)
            case "USER":
                stage.user = rest
            case "ENTRYPOINT":
                stage.entrypoint = yaml.safe_load(rest)
            case _:
                raise AssertionError(f"{word}: the test does not know this instruction")
    return stage


def test_the_image_runs_muster_and_nothing_of_this_checkout(image: Stage) -> None:
    assert image.user != "root"
    assert not image.user.startswith("0")
    said = subprocess.run(
        [*image.entrypoint, "crds"], env=image.env, cwd=image.directory, check=True, capture_output=True
    )
    assert list(yaml.safe_load_all(said.stdout)) == definitions()
    where = "import muster, numpy; print(muster.__file__, numpy.__file__)"
    found = subprocess.run(
        ["python", "-c", where],
        env=image.env,
        cwd=image.directory,
        check=True,
        capture_output=True,
        text=True,
    )
    assert str(ROOT) not in found.stdout


def test_the_image_has_the_versions_of_the_lock_file_and_no_others(image: Stage) -> None:
    listed = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    found = subprocess.run(
        ["python", "-c", listed],
        env=image.env,
        cwd=image.directory,
        check=True,
        capture_output=True,
        text=True,
    )
    locked = {
        f"{normal(each['name'])}=={each['version']}"
        for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    }
    installed = {f"{normal(n)}=={v}" for n, v in (each.split("==") for each in found.stdout.split())}
    assert len(installed) > 20
    assert installed <= locked
    assert not {each for each in installed if each.startswith(("pytest", "uv=="))}


def instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = re.sub(r"\\\n", " ", text).splitlines()
    for line in lines:
        if line.strip() and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest.strip()


def base(home: Path) -> dict[str, str]:
    """The environment of an image that has Python and nothing else."""
    if not (home / "base").exists():
        subprocess.run([os.path.realpath(sys.executable), "-m", "venv", home / "base"], check=True)
    ours = ("VIRTUAL_ENV", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT")
    outer = {name: value for name, value in os.environ.items() if name not in ours}
    return {**outer, "PATH": f"{home / 'base/bin'}:{os.defpath}"}


def copy(directory: Path, *paths: str) -> None:
    """Copies from the build's context, which is what .dockerignore leaves."""
    context = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    *sources, target = paths
    for source in sources:
        assert Path(source).parts[0] in context, f"{source} is not in the build's context (.dockerignore)"
        if (ROOT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, directory / target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / source, directory / target)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

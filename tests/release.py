"""`make release`: builds what a release publishes, into dist/, and tries it as its users will.

The version is that of `muster.version`; everything else that names it, and the changelog, must agree. Wheel
and sdist are each installed in an environment of their own. Nothing is published and nothing is tagged: the
last lines say what is left to do.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from muster.version import VERSION
from tests.cluster.building import Missing
from tests.cluster.control_plane import built

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
_TRIED: Final = ("examples/01-one-group-one-job.yaml", "examples/06-hyperparameter-sweep.yaml")


def stated(root: Path = ROOT) -> Mapping[str, str]:
    """The version that each file names."""
    chart = yaml.safe_load((root / "charts/muster/Chart.yaml").read_text())
    base = yaml.safe_load_all((root / "kustomize/muster.yaml").read_text())
    labels = [each["metadata"].get("labels", {}).get("app.kubernetes.io/version") for each in base]
    project = re.search(r'^version = "(.+)"', (root / "pyproject.toml").read_text(), re.MULTILINE)
    return {
        "pyproject.toml": project[1] if project else "",
        "charts/muster/Chart.yaml: version": chart["version"],
        "charts/muster/Chart.yaml: appVersion": chart["appVersion"],
        "kustomize/muster.yaml": next(filter(None, labels), ""),
    }


def section(changelog: str, version: str) -> str:
    """What the changelog says of a version. Raises ValueError if it says nothing."""
    found = re.search(
        rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.M | re.S
    )
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md has no section `## {version} - YYYY-MM-DD`: rename Unreleased")
    if (left := re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)) and left[1].strip():
        raise ValueError("CHANGELOG.md has a section Unreleased that is not empty")
    return found[1].strip()


def wrong() -> list[str]:
    """What has to be mended before this version can be built."""
    found = [
        f"{file} says {said}, muster.version {VERSION}" for file, said in stated().items() if said != VERSION
    ]
    try:
        section((ROOT / "CHANGELOG.md").read_text(), VERSION)
    except ValueError as error:
        found.append(str(error))
    changed = _run("git", "status", "--porcelain", at=ROOT)
    return [*found, *(["there are changes that are not committed"] if changed else [])]


def tried(artifact: Path, uv: str) -> None:
    """Installs the artifact in a clean environment, and uses it there."""
    with tempfile.TemporaryDirectory() as home:
        at = Path(home)
        venv.create(at / "venv", with_pip=False)
        python, muster = at / "venv/bin/python", at / "venv/bin/muster"
        _run(uv, "pip", "install", "--quiet", "--python", str(python), str(artifact), at=at)
        assert _run(str(muster), "--version", at=at).split()[-1] == VERSION
        _run(str(muster), "check", *(str(ROOT / each) for each in _TRIED), at=at)
        _run(str(python), "-c", f"import muster; assert muster.compile({str(ROOT / _TRIED[0])!r})", at=at)


def main() -> None:
    if found := wrong():
        sys.exit("\n".join(["make release: mend this first", *(f"  {each}" for each in found)]))
    shutil.rmtree(DIST, ignore_errors=True)
    uv = str(Path(sys.executable).with_name("uv"))
    _run(uv, "build", "--quiet", "--out-dir", str(DIST), at=ROOT)
    for artifact in [*sorted(DIST.glob("*.whl")), *sorted(DIST.glob("*.tar.gz"))]:
        print(f"{artifact.name}: installed and tried", flush=True)
        tried(artifact, uv)
    try:
        _run(str(built("helm")), "package", "charts/muster", "--destination", str(DIST), at=ROOT)
    except Missing as missing:
        sys.exit(f"make release: the chart is not packaged: {missing}")
    for artifact in sorted(each for each in DIST.iterdir() if each.suffix != ".gitignore"):
        if artifact.name != ".gitignore":
            print(f"{hashlib.sha256(artifact.read_bytes()).hexdigest()}  dist/{artifact.name}")
    print(
        f"left to do: git tag -s v{VERSION}; publish dist/; build and push the image of the Dockerfile; "
        "then write its digest into the release's notes, which are the changelog's section"
    )


def _run(*words: str, at: Path) -> str:
    outside = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        words,
        cwd=at,
        env={**outside, "MUSTER_HOME": str(at / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"make release: {' '.join(words[:3])} failed\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()

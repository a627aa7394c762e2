"""How much of muster runs on the four paths that matter: its files, its functions, and the lines of these.

A path is long if one has to read much to follow it. The figures are of what ran, not of what is imported.

    python -m bench.paths             all
    python -m bench.paths why         some
    python -m bench.paths why --list  the functions, in files
"""

import ast
import marshal
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

import muster
from bench import binding

SOURCE: Final = Path(muster.__file__).parent
EXAMPLES: Final = Path(__file__).parents[1] / "examples"
_BATCH: Final = SOURCE / "app/demo/scripts"
_UP: Final = ["up", "--detach", "--nodes", "1 x cpu=4,memory=8Gi,runtime=none"]
#: path → commands, of which the last is measured
COMMANDS: Final[dict[str, list[list[str]]]] = {
    "run": [["run", "quick.yaml"]],
    "submit": [_UP, ["submit", "job.yaml"]],
    "why": [_UP, ["submit", "job.yaml"], ["submit", "waits.yaml"], ["why", "waits"]],
    "check --policies": [["check", "--policies", "policies", "batch.yaml"]],
}
_JOB: Final = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: NAME, annotations: {muster.dev/gang: "true"}}
spec:
  replicatedJobs:
  - name: w
    replicas: 1
    template: {spec: {completions: 4, parallelism: 4, completionMode: Indexed, template: {spec: {containers: [
      {name: main, image: none, command: ["true"], resources: {requests: {cpu: CPU}}}]}}}}
"""
#: a function: its file, its first line, its name
Function = tuple[str, int, str]


def functions(profile: Path) -> set[Function]:
    """The functions of muster that ran, without the bodies of modules and classes."""
    found: dict[Function, object] = marshal.loads(profile.read_bytes())
    return {one for one in found if one[0].startswith(f"{SOURCE}/") and one[2] in _defined(one[0])}


def lines(ran: set[Function]) -> int:
    """Lines of these functions, with their signatures and docstrings."""
    first = {(file, line) for file, line, _ in ran}
    total = 0
    for file in {file for file, _, _ in ran}:
        for node in ast.walk(ast.parse(Path(file).read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if {(file, begin), (file, node.lineno)} & first:
                    total += (node.end_lineno or begin) - begin + 1
    return total


def _defined(file: str) -> set[str]:
    if file not in _NAMES:
        tree = ast.walk(ast.parse(Path(file).read_bytes()))
        _NAMES[file] = {
            node.name for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return _NAMES[file]


_NAMES: dict[str, set[str]] = {}


def command(prepared: list[list[str]]) -> set[Function]:
    """What the last of these commands runs in its own process, the host's apart."""
    with tempfile.TemporaryDirectory() as directory:
        work, profile = Path(directory), Path(directory) / "profile"
        for name, cpu in (("quick", "10m"), ("job", "1"), ("waits", "1")):
            (work / f"{name}.yaml").write_text(_JOB.replace("NAME", name).replace("CPU", cpu))
        (work / "policies").mkdir()
        (work / "policies/all.cedar").write_text("permit (principal, action, resource);\n")
        (work / "batch.yaml").write_text((_BATCH / "training.yaml").read_text())
        environ = {**os.environ, "MUSTER_HOME": str(work / "home"), "HOME": directory}
        for words in prepared[:-1]:
            _run([sys.executable, "-m", "muster", *words], work, environ)
        profiled = [sys.executable, "-m", "cProfile", "-o", str(profile), "-m", "muster", *prepared[-1]]
        _run(profiled, work, environ)
        _run([sys.executable, "-m", "muster", "down"], work, environ)
        return functions(profile)


def _run(words: list[str], work: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(words, cwd=work, env=environ, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: a job that waits, or `down` without a host
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")


def bound() -> set[Function]:
    """What the scheduler's process runs from the watch events of a gang of 20 to its last Binding."""
    with tempfile.TemporaryDirectory() as directory:
        profile = Path(directory) / "profile"
        binding.measure(20, str(profile))
        return functions(profile)


def main() -> int:
    names = [word for word in sys.argv[1:] if word != "--list"]
    for path in ("pod → binding", *COMMANDS):
        if names and path not in names:
            continue
        ran = command(COMMANDS[path]) if path in COMMANDS else bound()
        files = defaultdict[str, set[str]](set)
        for file, _, name in ran:
            files[str(Path(file).relative_to(SOURCE))].add(name)
        print(f"{path:<20}{len(files):>5} files{len(ran):>6} functions{lines(ran):>7,} lines", flush=True)
        if "--list" in sys.argv:
            for each, inside in sorted(files.items()):
                print(f"  {each}: {', '.join(sorted(inside))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

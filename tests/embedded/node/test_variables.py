"""Every variable that a pod states reaches its command, at a start and beside a running container."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.embedded.node import variables
from muster.embedded.node.isolation import Files, Isolation, Setup, detect
from tests.tiers import examples

_NAMES: Final = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="="), min_size=1
)
_VALUES: Final = st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF), max_size=20)
_REPORT: Final = (
    sys.executable,
    "-SEc",
    "import os, sys; sys.stdout.buffer.write(open('/proc/self/environ', 'rb').read())",
)


@pytest.fixture(scope="module", params=["namespaces", "none"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    found = detect({"MUSTER_ISOLATION": "none"} if request.param == "none" else None)
    if request.param == "namespaces" and not found.namespaces:
        pytest.skip(found.reason)
    return found


def _reported(argv: list[str], env: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(argv, env=env, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return dict(os.fsdecode(entry).split("=", 1) for entry in done.stdout.split(b"\0") if entry)


@settings(max_examples=examples(25), deadline=None)
@given(st.dictionaries(_NAMES, _VALUES, max_size=6))
@example({"optim.lr": "0.1", "batch-size": "64 $HOME `id`", "EPOCHS": "3"})
@example({"path": "/data", "stage": "train", "code": "7", "-u": "x", "PWD": "/nowhere", "IFS": "x", "_": "y"})
@example({"BASH_ENV": "/nowhere", "UID": "7", "MUSTER_CARRIED_0": "mine", "a.b": "c"})
def test_every_variable_reaches_the_command(isolation: Isolation, stated: dict[str, str]) -> None:
    stated = {name: value for name, value in stated.items() if not name.startswith("LD_")}
    with tempfile.TemporaryDirectory() as directory:
        env, argv = variables.carry({"PATH": os.environ["PATH"], **stated}, _REPORT)
        lock = Path(directory, "lock")
        wrapper = isolation.command(Setup("trial", "/"), Files(Path(directory)), lock, argv)
        started = _reported(wrapper, env)
        beside = _reported(Isolation(namespaces=False).inside(1, "/", argv), env)
    for got in (started, beside):
        assert {name: got.get(name) for name in stated} == stated
        assert not [name for name in got if name.startswith("MUSTER_CARRIED_") and name not in stated]


@given(st.sets(_NAMES, max_size=6))
@example({"password", "db.password", "TOKEN"})
def test_no_value_is_an_argument_which_other_users_can_read(names: set[str]) -> None:
    env, argv = variables.carry(dict.fromkeys(names, "s3cr3t"), ["program", "argument"])
    assert not [word for word in argv if "s3cr3t" in word]
    assert sum("s3cr3t" in value for value in env.values()) == len(names)


def test_the_command_has_the_signals_that_it_would_have_without_variables() -> None:
    """Python ignores two at its start, and who is ignored stays so in what a process becomes."""
    report = ["grep", "^SigIgn:", "/proc/self/status"]
    env = {"PATH": os.environ["PATH"]}
    carried, argv = variables.carry({**env, "a.b": "c"}, report)
    assert subprocess.check_output(argv, env=carried) == subprocess.check_output(report, env=env)


def test_a_command_with_an_equals_sign_in_its_path_is_no_variable(tmp_path: Path) -> None:
    program = tmp_path / "lr=0.1"
    program.write_text('#!/bin/sh\necho "ran $1"\n')
    program.chmod(0o755)
    env, argv = variables.carry({"PATH": os.environ["PATH"], "a.b": "c"}, [str(program), "x"])
    assert subprocess.run(argv, env=env, capture_output=True).stdout == b"ran x\n"


@pytest.mark.parametrize("name", ["ML", "optim.lr"])
def test_what_is_too_long_is_named_and_what_is_not_can_be_started(name: str) -> None:
    def pad(env: dict[str, str]) -> int:
        return max(len(f"{key}={value}") for key, value in variables.carry(env, ())[0].items())

    room = variables.LONGEST - pad({name: ""})
    longest = {"PATH": os.environ["PATH"], name: "x" * room}
    assert not variables.too_long(longest, _REPORT)
    env, argv = variables.carry(longest, _REPORT)
    assert len(_reported(argv, env)[name]) == room
    told = variables.too_long({**longest, name: "x" * (room + 1)}, _REPORT)
    assert told.startswith(f"environment variable {name} is too long: 131,072 bytes")


def test_a_long_argument_is_named_by_its_place() -> None:
    assert variables.too_long({}, ["sh", "-c", "x" * 200_000]).startswith("word 3 of the command is too long")

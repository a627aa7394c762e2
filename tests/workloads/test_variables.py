"""`--env` and `--env-file`: variables reach every container; what cannot be read is refused at once."""

import re
from pathlib import Path

import pytest
from hypothesis import given as with_any
from hypothesis import strategies as st

from muster.api.base import Object
from muster.embedded.node.environment import expand
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.variables import MAX_BYTES, give, given

FILE = """\
# a comment
A=1
 export B = 2
export C="two words"
D='$(A) # no comment'
E=
HERE
"""
AICHOR = """name: a
spec:
  operator: jobset
  command: x
  env: {A: "file", B: "file"}
  types: {w: {count: 2}}
"""
JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      restartPolicy: Never
      initContainers: [{name: i, image: i, command: [x]}]
      containers: [{name: c, image: i, command: [x], env: [{name: A, value: file}]}]
"""


def read(tmp_path: Path, text: str | bytes) -> dict[str, str]:
    file = tmp_path / "vars.env"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return given([], [str(file)], {"HERE": "here"})


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match=r"vars.env:3: 'B ' is not a name for a variable"):
        read(tmp_path, FILE)
    found = read(tmp_path, FILE.replace("B = ", "B="))
    assert found == {"A": "1", "B": "2", "C": "two words", "D": "$(A) # no comment", "E": "", "HERE": "here"}


def test_later_variables_and_the_command_line_win(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("A=1\nA=2\nB=2")
    assert given(["B=3", "C='3'"], [str(file)], {}) == {"A": "2", "B": "3", "C": "'3'"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("A", "vars.env:1: A is not set here; write A=VALUE"),
        ("\n=x", "vars.env:2: '' is not a name for a variable"),
        ("A=\0", "vars.env:1: a value cannot hold a NUL"),
        (b"A=1\nB=\xff", "vars.env:2: is not UTF-8"),
        ("x" * (MAX_BYTES + 1), "vars.env: has more than 1 MiB of variables"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(JobFileError, match=re.escape(said)):
        read(tmp_path, content)


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(JobFileError, match="more than 1 MiB"):
        given([], ["/dev/zero"], {})
    with pytest.raises(JobFileError, match="cannot be read"):
        given([], ["/nosuch"], {})


def test_a_value_is_not_shown_in_errors() -> None:
    with pytest.raises(JobFileError) as error:
        given(["TOKEN=secret\0"], [], {})
    assert "secret" not in str(error.value)


@with_any(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_values_arrive_as_they_were_given(value: str) -> None:
    container: Object = {"env": [{"name": "X", "value": "old"}, {"name": "Y", "value": "kept"}]}
    give(container, given([f"X={value}"], [], {}))
    own = {each["name"]: expand(each["value"], {}) for each in container["env"]}
    assert own == {"X": value, "Y": "kept"}


@pytest.mark.parametrize("text", [AICHOR, JOB])
def test_all_containers_get_them_instead_of_the_files(text: str) -> None:
    job = load("f", Options(suffix="0" * 8, env={"A": "given"}), text=text)
    spec = job.primary[0]["spec"]
    if "replicatedJobs" in spec:
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    pod = spec["template"]["spec"]
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        assert [each["value"] for each in container["env"] if each["name"] == "A"] == ["given"]


def test_what_muster_sets_is_not_to_be_given() -> None:
    with pytest.raises(JobFileError, match="JOB_INDEX"):
        load("f", Options(suffix="0" * 8, env={"JOB_INDEX": "7"}), text=AICHOR)

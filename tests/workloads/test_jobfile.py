"""What a job records of the file that it was made from."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workloads.jobfile import GENERATED, PLAIN, Mode, Source
from muster.workloads.load import load
from tests.cli.binary import manifest

HEX = st.text("0123456789abcdef", min_size=8, max_size=8)
POD = "{apiVersion: v1, kind: Pod, metadata: {%s}, spec: {containers: [{name: c, command: [x]}]}}"


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (manifest("x", name="exp"), None),
        (POD % "generateName: exp-", None),
        (POD % "name: exp" + "\n---\n" + POD % "name: b", "gang"),  # whose PodGroup has a generated name
        ("\n---\n".join([POD % "generateName: exp-"] * 2), None),
    ],
)
@given(suffix=HEX)
def test_the_record_tells_a_generated_name_from_one_that_looks_alike(
    text: str, mode: Mode | None, suffix: str
) -> None:
    job = load("job.yaml", replace(PLAIN, suffix=suffix, mode=mode), text=text)
    source = Source("/job.yaml", "me@here", suffix=job.suffix)
    names = [name for each in job.objects if (name := each["metadata"]["name"]) not in ("exp", "b")]
    assert names
    for name in names:
        assert source.generated(name, "exp")
        assert source.generated(f"{name}-r2", "exp")
        assert not source.generated(name, "ex")
        assert not source.generated(f"{name}x", "exp")


@given(HEX, HEX, st.sampled_from(["", "-r1", "-2"]))
def test_a_name_that_its_author_has_written_was_not_generated(suffix: str, date: str, ending: str) -> None:
    if date[:GENERATED] != suffix[:GENERATED]:
        for name in (f"exp-{date}{ending}", f"exp-{date[:GENERATED]}{ending}"):
            assert not Source("/job.yaml", "me@here", suffix=suffix).generated(name, "exp")
            assert not Source("/job.yaml", "me@here").generated(name, "exp")

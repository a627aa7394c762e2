"""Bad input from the command line: one clear error each, whatever the file or the policies are."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import main as cli
from tests.workloads.batch.jobs import TRAINING, changed, small

Check = Callable[..., list[str]]
ALL = "permit (principal, action, resource);\n"
TRAINER = "spec/tasks/workers/workload/containers/trainer"
HOSTILE = 'x"; permit (principal, action, resource); //'


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Check:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(job: str, policies: str = ALL, *words: str) -> list[str]:
        """What `muster check` says is wrong, without patches."""
        Path("job.yaml").write_text(job)
        Path("policies").mkdir(exist_ok=True)
        Path("policies/all.cedar").write_text(policies)
        monkeypatch.setattr(sys, "argv", ["muster", "check", "job.yaml", "--policies", "policies", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 2
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        lines = (said.out + said.err).splitlines()
        return [each for each in lines if each.startswith(("error: ", "policies"))]

    return run


def tasks(number: int) -> dict[str, Any]:
    return {f"t{n}": {"workload": {"containers": {"a": {"image": "x"}}}} for n in range(number)}


CASES: dict[str, tuple[str, str, str]] = {
    "a policy as long as a loop": (
        TRAINING,
        f"permit (principal, action, resource) when {{ {' && '.join(['true'] * 5000)} }};",
        "too long a condition",
    ),
    "huge policies": (TRAINING, ALL * 50_000, "larger than 1 MiB"),
    "ten thousand tasks": (changed(TRAINING, {"spec/tasks": tasks(10_000)}), ALL, "has 10,000 tasks"),
    "placeholders in placeholders": (
        changed(
            TRAINING, {f"{TRAINER}/variables/X": "${resources.${resources.training-data.bucket}.bucket}"}
        ),
        ALL,
        "there is no resource ${resources",
    ),
    "a job with a hostile name": (changed(TRAINING, {"metadata/name": HOSTILE}), ALL, "metadata.name"),
    "a secret with a hostile path": (
        changed(TRAINING, {"spec/resources/training-data/id": HOSTILE}),
        ALL,
        "is the path in the store: letters, digits and . _ / -",
    ),
    "a queue with a hostile name": (changed(TRAINING, {"spec/queue": HOSTILE}), ALL, "the name of a queue"),
}


@pytest.mark.parametrize(("job", "policies", "told"), CASES.values(), ids=CASES)
def test_one_clear_error(check: Check, job: str, policies: str, told: str) -> None:
    [error] = check(job, policies)
    assert told in error


def test_a_trust_policy_with_a_mistake_is_told_though_no_image_is_looked_up(check: Check) -> None:
    Path("policies").mkdir()
    policy = {"kind": "TrustPolicy", "metadata": {"name": "team"}, "spec": {"match": {"images": ["nginx"]}}}
    Path("policies/trust.yaml").write_text(yaml.safe_dump(policy))
    [told] = check(small())
    assert told.startswith("policies/trust.yaml: TrustPolicy team: spec.match.images[0]: 'nginx' does not")

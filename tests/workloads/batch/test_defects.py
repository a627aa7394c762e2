"""The seven defects of the reference, each as a test that muster does not have it.

Four of them are tests of the part that would have them: 2 (`tests.compiler.test_network`), 4
(`tests.workloads.batch.test_targets`), 5 and 6 (`tests.compiler.test_secrets`).
"""

from dataclasses import replace

import pytest

from muster.compiler import Facts
from muster.compiler.facts import Image, SharedVolume
from muster.security.policies import Policies
from tests.workloads.batch.jobs import TRAINING, changed, compiled, small

ALL = Policies({"all": "permit (principal, action, resource);"})
IMAGE = "registry.example.com/trainer@sha256:def456"
TARGETS = ("muster", "volcano", "native")
SHARED = {"type": "volume", "id": "sets", "namespace": "data"}


def test_defect_1_images_of_jobs_are_verified() -> None:
    bad = Image("", trusted=False, reason="no signature of release")
    result = compiled(TRAINING, policies=ALL, facts=Facts(images={IMAGE: bad}))
    assert any("no signature of release" in each.message for each in result.problems)
    assert not result.jobs
    assert compiled(TRAINING, policies=ALL, facts=Facts(images={IMAGE: replace(bad, trusted=True)})).jobs


def test_defect_1_a_shared_volume_is_authorised_and_not_always_refused() -> None:
    text = small({"volumes": {"/data": {"source": "${resources.v}"}}}, v=SHARED | {"namespace": "ml"})
    facts = Facts(volumes={("ml", "sets"): SharedVolume("sets", ("ml/job-work",))})
    assert not compiled(text, policies=ALL, facts=facts).problems
    assert compiled(text, policies=Policies(), facts=facts).problems
    without = Facts(volumes={("ml", "sets"): SharedVolume("sets", ())})
    assert compiled(text, policies=ALL, facts=without).problems


@pytest.mark.parametrize("target", TARGETS)
def test_defect_3_defaults_count_on_every_target(target: str) -> None:
    change = {
        "spec/tasks/workers/replicas": None,
        "spec/defaults/replicas": 5,
        "spec/minAvailable": None,
        "spec/queue": None,
        "spec/tasks/workers/restartPolicy": None,
        "spec/defaults/restartPolicy": "Never",
    }
    made = compiled(changed(TRAINING, change), target=target).jobs[-1]["spec"]
    if target == "volcano":
        [task] = made["tasks"]
        assert (made["minAvailable"], task["replicas"]) == (5, 5)
        pod = task["template"]["spec"]
    else:
        [group] = made["replicatedJobs"]
        assert group["template"]["spec"]["completions"] == 5
        pod = group["template"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"


def test_defect_7_a_bucket_in_the_host_name_is_a_hint_that_names_the_pattern() -> None:
    [hint] = [each for each in compiled(TRAINING).warnings if "BUCKET." in each.message]
    assert "are blocked" in hint.message
    assert "https://*.s3.us-east-1.amazonaws.com" in hint.fix

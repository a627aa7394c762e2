"""docs/guides/secure-batch.md and docs/reference/gates.md are true: what they show is decided as they say."""

import re
from pathlib import Path

import pytest

from muster.compiler import Facts
from muster.security.policies import Policies
from muster.workloads import policy_cases, source
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.platform import Platform
from tests.security.test_requests import OVERRIDES

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "guides" / "secure-batch.md").read_text() + (DOCS / "reference" / "gates.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.S | re.M)
POLICIES = [text for kind, text in BLOCKS if kind == "cedar"]
[JOB] = [text for kind, text in BLOCKS if text.startswith("# report.yaml")]


def test_the_example_is_denied_as_shown() -> None:
    [shown] = [text for kind, text in BLOCKS if kind == "text"]
    platform = Platform(facts=Facts(), policies=Policies({"ml": POLICIES[0]}))
    with pytest.raises(JobFileError) as caught:
        load("report.yaml", Options(local=False, platform=platform), text=JOB)
    assert "\n".join(f"error: {each.whole()}" for each in caught.value.findings) == shown.strip()


def test_the_example_is_compiled_to_what_the_page_says() -> None:
    platform = Platform(facts=Facts(), policies=Policies({"ml": POLICIES[0], "ml-data": POLICIES[1]}))
    made = load("report.yaml", Options(local=False, platform=platform), text=JOB)
    kinds = ["CiliumNetworkPolicy", "ConfigMap", "ExternalSecret", "JobSet", "ServiceAccount"]
    assert sorted(each["kind"] for each in made.objects) == [*kinds, "TracingPolicyNamespaced"]


@pytest.mark.parametrize("text", POLICIES)
def test_policies_are_valid(text: str) -> None:
    assert Policies({"p": text}).permits


def test_cases_are_read() -> None:
    [text] = [text for _, text in BLOCKS if text.startswith("cases:")]
    assert len(policy_cases.read(source.parse(text, "cases.yaml")[0])[1]) == 2


def test_every_override_has_its_line() -> None:
    kinds = {id_.rpartition(":")[0] or id_ for _, ids, _ in OVERRIDES for id_ in ids}
    assert {kind for kind in kinds if f"`{kind.partition(':')[0]}" not in PAGE} == set()

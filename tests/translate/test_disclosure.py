"""What texts that users of a namespace read may name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.words.decisions import ExpectedStart, Explanation, Remedy
from muster.core.words.gang import Code, GangId
from muster.translate.disclosure import EVERYTHING, GANG, POD, Disclosure
from muster.translate.status import explained

NAMES = {"ml/a", "ml/b", "web/x", "web/x/stage", "web/y-1", "web/gang:job-z"}
HIDING = Disclosure(lambda word: word.partition("/")[0] in ("ml", "web"))
OWN = frozenset({"ml"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("when web/x ends on n1 (its run time)", "when another namespace's gang ends on n1 (its run time)"),
        ("when ml/a ends on n1 (its run time)", "when ml/a ends on n1 (its run time)"),
        ("web/x, web/y-1 and 2 others end", "2 gangs of other namespaces and 2 others end"),
        ("ml/a, web/x/stage and web/y-1 have ended", "ml/a, 2 gangs of other namespaces have ended"),
        ("(web/x) 'web/gang:job-z': no", "(another namespace's gang) 'another namespace's gang': no"),
        (
            "would fit, but web/x waits for longer and is expected to start at 2026-01-01 00:10:00 UTC",
            "would fit, but another namespace's gang waits for longer and is expected to start later",
        ),
        (
            "would fit, but ml/b waits for longer and is expected to start at 2026-01-01 00:10:00 UTC",
            "would fit, but ml/b waits for longer and is expected to start at 2026-01-01 00:10:00 UTC",
        ),
        ("8 nvidia.com/gpu asked; pool/web=1, 3/4 of topology.kubernetes.io/zone", None),
        ("image registry.web/x:1 in web, example.com/web/x", None),
    ],
)  # fmt: skip
def test_what_a_text_calls_gangs_of_other_namespaces(text: str, told: str | None) -> None:
    assert HIDING.text(text, OWN) == (told or text)
    assert EVERYTHING.text(text, OWN) == text


def test_pods_are_called_pods() -> None:
    assert HIDING.text("web/p, web/q and 1 more", OWN, POD) == "2 pods of other namespaces and 1 more"


def test_a_list_counts_the_gangs_that_it_does_not_name() -> None:
    gangs = [GangId(name) for name in ("web/x", "ml/a", "web/y-1")]
    assert HIDING.gangs(gangs, OWN) == ["ml/a", "2 gangs of other namespaces"]
    assert HIDING.gangs(gangs[:1], OWN) == ["another namespace's gang"]
    assert HIDING.gangs(gangs[:1], {"ml", "web"}) == EVERYTHING.gangs(gangs[:1], OWN) == ["web/x"]


WORDS = st.sampled_from([*sorted(NAMES), "when", "ends", "gpu", "1/2", "a.b/c", "n-1"])
SEPARATORS = st.sampled_from([" ", ", ", " and ", ": ", " (", ") ", "; ", "'"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORDS, max_size=8))
    return "".join(word + draw(SEPARATORS) for word in words)


@given(texts(), texts(), texts(), st.lists(st.sampled_from(sorted(NAMES)), max_size=5))
def test_no_explanation_has_a_name_of_another_namespace(
    message: str, change: str, basis: str, blockers: list[str]
) -> None:
    explanation = Explanation(
        Code.FRAGMENTED,
        "placement",
        message,
        blockers=tuple(map(GangId, blockers)),
        remedies=(Remedy(change, message),),
        expected_start=ExpectedStart(1.0, basis),
    )
    told = json.dumps(explained(explanation, HIDING, OWN))
    assert "web/" not in told
    for name in ("ml/a", "ml/b"):
        assert told.count(f"{name}") == json.dumps(explained(explanation, EVERYTHING, OWN)).count(name)
    assert HIDING.text(HIDING.text(message, OWN), OWN) == HIDING.text(message, OWN)


def test_what_is_hidden_is_known_by_its_namespace_or_by_its_name() -> None:
    """So a gang that has just gone is hidden as one that is there."""
    assert HIDING.text("when web/no-longer-there ends", OWN) == "when another namespace's gang ends"
    assert (
        Disclosure(lambda word: word == "new/g").text("new/g and old/g", OWN)
        == f"another namespace's {GANG} and old/g"
    )

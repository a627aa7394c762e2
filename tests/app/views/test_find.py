"""Which job a name stands for."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import ObjectMeta
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import JobSet
from muster.app.views.find import UnknownJob, listed, matched, matching, meant, scoped
from muster.app.views.job import JobView
from muster.app.views.jobs import views
from muster.app.views.objects import Objects
from tests.app.views.test_jobs import job

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def jobs(*names: str) -> list[JobView]:
    """Jobs of these names, or of `namespace/name`, each a second newer than the one before."""
    found = []
    for number, each in enumerate(names):
        namespace, _, name = each.rpartition("/")
        at = T0 + timedelta(seconds=number)
        meta = ObjectMeta(name=name, namespace=namespace or "default", uid=each, creation_timestamp=at)
        found.append(Job(metadata=meta))
    return views(Objects(jobs=found))


@pytest.mark.parametrize(
    ("name", "found", "named"),
    [
        ("train-3f9a1c20", ["train-3f9a1c20"], True),
        ("default/train-3f9a1c20", ["train-3f9a1c20"], True),
        ("train", ["train-3f9a1c20", "train-0b5d7e11", "train-8c1d2"], True),
        (
            "train-",
            [
                "train-3f9a1c20",
                "train-big-00000000",
                "train-0b5d7e11",
                "train-large",
                "train-0b5d7-eval",
                "train-8c1d2",
            ],
            False,
        ),
        ("train-big", ["train-big-00000000"], True),
        ("other", ["other"], True),
        ("o", ["other"], False),
        (
            "t",
            [
                "train-3f9a1c20",
                "train-big-00000000",
                "train-0b5d7e11",
                "train-large",
                "train-0b5d7-eval",
                "train-8c1d2",
            ],
            False,
        ),
        (
            None,
            [
                "train-3f9a1c20",
                "train-big-00000000",
                "train-0b5d7e11",
                "train-large",
                "train-0b5d7-eval",
                "other",
                "train-8c1d2",
            ],
            False,
        ),
    ],
)
def test_a_name_is_a_whole_name_or_that_of_a_file_before_it_is_a_prefix(
    name: str | None, found: list[str], named: bool
) -> None:
    there = jobs(
        "train-3f9a1c20",
        "train-big-00000000",
        "train-0b5d7e11",
        "train-large",
        "train-0b5d7-eval",
        "other",
        "train-8c1d2",
    )
    matches = matching(name, there)
    assert [each.name for each in matches.found] == found
    assert matches.named is named
    assert meant(matches).view.name == found[-1], "the newest"
    assert (meant(matches).told == "") is (len(found) == 1)


@given(
    st.lists(st.text("ab-", min_size=1, max_size=4), min_size=1, max_size=8, unique=True),
    st.text("ab-", max_size=4),
)
def test_whatever_the_names_the_newest_that_matches_is_meant(names: Sequence[str], name: str) -> None:
    there = jobs(*names)
    found = matched(name, there)
    matches = [each for each in names if name and each.startswith(name)]
    if not matches:
        assert found is None
        return
    assert found is not None
    assert found.newest.name == (name if name in names else matches[-1])
    assert {each.name for each in found.found} <= set(matches)


def test_which_job_is_meant_is_told_with_the_number_of_the_others() -> None:
    there = jobs("train-00000001", "train-00000002", "other")
    assert str(matching("train", there)) == "train-00000002, the newest of 2 jobs that match train"
    assert str(matching("tr", there)) == "train-00000002, the newest of 2 jobs that match tr"
    assert str(matching(None, there)) == "other, the newest of 3 jobs"
    assert str(matching("oth", there)) == "other"


def test_a_job_that_is_not_there_is_told_with_those_that_are() -> None:
    three = jobs("other", "train-1", "train-2")
    with pytest.raises(UnknownJob, match="no job named x; there are: other, train-1, train-2"):
        matching("x", three)
    with pytest.raises(UnknownJob, match="no job named x; there is none"):
        matching("x", [])
    with pytest.raises(UnknownJob, match="there is no job yet; `muster run FILE` makes one"):
        matching(None, [])
    for among in (three, three[:1]):
        with pytest.raises(UnknownJob, match="the name of the job is empty; there "):
            matching("", among)
    many = jobs(*(f"train-{number:02}" for number in range(12)))
    assert re.fullmatch(r"2 older and train-02, .*, train-11", listed(many))
    assert listed(three[:2], lambda view: view.state.value) == "other (waiting), train-1 (waiting)"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("trian-1", "no job named trian-1; did you mean train-1?; there are: other"),
        ("Train-2", "no job named Train-2; did you mean train-2?; there are"),
        ("zzz", "no job named zzz; there are"),
    ],
)
def test_a_job_that_is_not_there_is_told_with_the_nearest_name(name: str, told: str) -> None:
    with pytest.raises(UnknownJob, match=re.escape(told)):
        matching(name, jobs("other", "train-1", "train-2"))


def test_jobs_of_one_name_are_distinguished_by_their_kinds() -> None:
    meta = ObjectMeta(name="j", namespace="default", uid="a", creation_timestamp=T0)
    same = views(Objects(jobsets=[JobSet(metadata=meta)], jobs=[job("j"), job("k")]))
    assert str(matching("j", same)) == "job/j, the newest of 2 jobs that match j"
    assert [matching(each, same).newest.kind for each in ("job/j", "JobSet/j")] == [kinds.JOB, kinds.JOBSET]
    assert (scoped("jobset/j", "ml"), scoped("JobSet/j", "")) == (("jobset/j", "ml"), ("JobSet/j", ""))
    with pytest.raises(UnknownJob, match="no job named jobset/k"):
        matching("jobset/k", same)
    with pytest.raises(UnknownJob):
        matching("job/", same)


def test_jobs_of_several_namespaces_are_distinguished() -> None:
    there = jobs("ml/train", "research/train")
    assert matching("ml/train", there).newest.namespace == "ml"
    assert str(matching("train", there)) == "research/train, the newest of 2 jobs that match train"
    assert (scoped("train", "ml"), scoped("ml/train", "")) == (("train", "ml"), ("train", "ml"))
    assert scoped(None, "ml") == (None, "ml")


@pytest.mark.parametrize("name", ["train", "train-3f9a1c20-r1"])
def test_a_retry_has_the_name_of_its_file(name: str) -> None:
    found = matching(name, jobs("train-3f9a1c20", "train-3f9a1c20-r1", "train-3f9a1c20-r1-eval"))
    assert found.newest.name == "train-3f9a1c20-r1"
    assert found.named

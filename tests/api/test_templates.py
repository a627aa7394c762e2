"""The templates in an object of each kind that has some: where they are, and of what."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import AnyKind, Object
from muster.api.fields import Path
from muster.api.kinds import CONFIG_MAP, CRON_JOB, JOB, JOBSET, POD, VOLCANO_JOB
from muster.api.templates import pod_templates, templates

KINDS: dict[str, tuple[str, str]] = {
    "JobSet": (JOBSET.api_version, "JobSet"),
    "Job": (JOB.api_version, "Job"),
    "CronJob": (CRON_JOB.api_version, "CronJob"),
    "Volcano's Job": (VOLCANO_JOB.api_version, "Job"),
    "Volcano's CronJob": (VOLCANO_JOB.api_version, "CronJob"),
    "pod": ("v1", "Pod"),
}


def pod(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {}}


def job(name: str) -> Object:
    return {"metadata": {"name": f"job of {name}"}, "spec": {"template": pod(name)}}


SPECS: dict[str, Object] = {
    "JobSet": {"replicatedJobs": [{"name": n, "template": job(n)} for n in "ab"]},
    "Job": job("a")["spec"],
    "CronJob": {"jobTemplate": job("a")},
    "Volcano's Job": {"tasks": [{"name": n, "template": pod(n)} for n in "ab"]},
    "Volcano's CronJob": {"jobTemplate": {"spec": {"tasks": [{"template": pod(n)} for n in "ab"]}}},
    "pod": {},
}
FOUND: dict[str, list[tuple[AnyKind, str]]] = {
    "JobSet": [
        (JOB, "spec.replicatedJobs.0.template"),
        (POD, "spec.replicatedJobs.0.template.spec.template"),
        (JOB, "spec.replicatedJobs.1.template"),
        (POD, "spec.replicatedJobs.1.template.spec.template"),
    ],
    "Job": [(POD, "spec.template")],
    "CronJob": [(JOB, "spec.jobTemplate"), (POD, "spec.jobTemplate.spec.template")],
    "Volcano's Job": [(POD, "spec.tasks.0.template"), (POD, "spec.tasks.1.template")],
    "Volcano's CronJob": [
        (VOLCANO_JOB, "spec.jobTemplate"),
        (POD, "spec.jobTemplate.spec.tasks.0.template"),
        (POD, "spec.jobTemplate.spec.tasks.1.template"),
    ],
    "pod": [],
}


def reach(obj: Any, path: Path) -> Any:
    """The value at a path. Raises LookupError or TypeError if there is none."""
    for step in path:
        obj = obj[step]
    return obj


def of(name: str, spec: Any) -> Object:
    version, kind = KINDS[name]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize("name", KINDS)
def test_templates_are_found_where_they_are(name: str) -> None:
    obj = of(name, SPECS[name])
    found = list(templates(obj))
    assert [(t.kind, ".".join(map(str, t.path))) for t in found] == FOUND[name]
    assert all(reach(obj, t.path) is t.value for t in found)
    pods = [(t.path, t.value) for t in found if t.kind is POD]
    assert list(pod_templates(obj)) == (pods or [((), obj)])


def test_the_kind_may_be_stated_and_others_have_none() -> None:
    (found,) = templates({"spec": {"template": pod("a")}}, JOB)
    assert found.value == pod("a")
    assert list(pod_templates({}, POD)) == [((), {})]
    assert list(pod_templates({"spec": SPECS["Job"]}, CONFIG_MAP)) == []
    assert list(templates({})) == []


PARTS = st.recursive(
    st.none() | st.booleans() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["spec", "template", "jobTemplate", "replicatedJobs", "tasks", "metadata"]), inner
        )
    ),
    max_leaves=20,
)


@given(st.sampled_from(sorted(KINDS)), PARTS)
def test_what_is_no_template_is_an_empty_one(name: str, spec: Any) -> None:
    obj = of(name, spec)
    for template in templates(obj):
        try:
            there = reach(obj, template.path)
        except (LookupError, TypeError):
            there = None
        assert template.value == ({} if there is None else there)

"""Which objects a reference names, and the table of groups."""

import pytest

from muster.api.base import AnyKind, ObjectMeta, OwnerReference, Resource, controls
from muster.api.kinds import JOB, JOBSET, VOLCANO_JOB
from muster.api.muster_v1alpha1 import Source


@pytest.mark.parametrize("kind", [JOB, JOBSET, VOLCANO_JOB])
@pytest.mark.parametrize(
    ("api_version", "name", "expected"),
    [
        ("batch/v1", "Job", JOB),
        ("batch/v1beta1", "Job", JOB),
        ("batch.volcano.sh/v1alpha1", "Job", VOLCANO_JOB),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", JOBSET),
        ("jobset.x-k8s.io/v1", "JobSet", JOBSET),
        ("batch/v1", "JobSet", None),
        ("jobs.example.org/v1", "Job", None),
        ("v1", "Job", None),
        ("", "Job", None),
    ],
)
def test_an_owner_is_of_a_kind_by_its_api_group(
    kind: AnyKind, api_version: str, name: str, expected: AnyKind | None
) -> None:
    owner = Resource(metadata=ObjectMeta(name="x", uid="1"))
    reference = OwnerReference(api_version=api_version, kind=name, name="x", uid="1", controller=True)
    assert kind.matches(reference) == (kind is expected)
    assert kind.matches(Source(api_version=api_version, kind=name)) == (kind is expected)
    owned = Resource(metadata=ObjectMeta(owner_references=[reference]))
    assert controls(kind, owner, owned) == (kind is expected)

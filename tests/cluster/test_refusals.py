"""Admission that refuses one member of a gang: the API server's own ValidatingAdmissionPolicy."""

from contextlib import suppress
from typing import Final

import pytest

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import GANG
from muster.kube.errors import Forbidden, Invalid, NotFound
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import bound, bound_at, gang, given_back_at, refused_at, times
from tests.cluster.goals import note

GROUP: Final = "admissionregistration.k8s.io"
POLICY: Final = Kind(GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, Resource)
BINDING: Final = Kind(
    GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False, Resource
)
WORDS: Final = "member 3 has no approval"
#: Seconds, from the first refusal until the others are given back, and from the end of the policy.
GIVEN_BACK, WHOLE = 2.0, 5.0


def policy(pod: str) -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    return {
        "metadata": {"name": "approval"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": f"!(object.metadata.name in ['{pod}', 'probe'])", "message": WORDS}
            ],
        },
    }


async def test_the_others_are_given_back_at_once_and_all_start_when_the_policy_is_gone(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    cluster.muster("fake-nodes", "2 x name=strict,cpu=16,memory=8Gi,label:test=refusals")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    pod = "strict-3"
    await cluster.make(POLICY, policy(pod))
    spec = {"policyName": "approval", "validationActions": ["Deny"]}
    await cluster.make(BINDING, {"metadata": {"name": "approval"}, "spec": spec})
    try:
        await cluster.until("the policy is in force", lambda: _refuses(cluster))
        await gang(cluster, "strict", 10, test="refusals")

        async def told() -> bool:
            with suppress(NotFound):
                record = await cluster.client.get(GANG, "default", "podgroup-strict")
                return record.status.reason is not None and WORDS in record.status.reason.message
            return False

        await cluster.until("the server is quoted", told)

        async def retried() -> bool:
            return len(refused_at(plane, pod)) >= 5

        await cluster.until("it is retried", retried)
        assert await bound(cluster, "strict") == 0
    finally:
        await cluster.client.delete(BINDING, "", "approval")
        await cluster.client.delete(POLICY, "", "approval")

    async def whole() -> bool:
        return await bound(cluster, "strict") == 10

    await cluster.until("all are bound", whole)
    refusals, binds = refused_at(plane, pod), bound_at(plane, "strict-")
    last = max(at for _, at in given_back_at(plane, "strict-"))
    assert sum(at < last for _, at in binds) == 9, "the others were bound in vain once"
    (removed,) = times(plane, "delete", "validatingadmissionpolicies", "approval")
    returned, started = last - refusals[0], max(at for _, at in binds) - removed
    note("one of ten is refused; nine are given back", returned, GIVEN_BACK)
    note("the policy is deleted; all ten are bound", started, WHOLE)


async def _refuses(cluster: Cluster) -> bool:
    """Whether the policy's turn has come: the server reads policies in the background."""
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "none"}}
    try:
        await cluster.client.bind("default", "probe", {**binding, "metadata": {"name": "probe"}})
    except (Forbidden, Invalid) as error:
        return WORDS in str(error)
    except NotFound:
        return False
    return False

"""People who write BatchJobs only: by their role, or by the policy of docs/reference/gates.md."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import (
    BATCH_JOB,
    CEDAR_POLICY,
    CONFIG_MAP,
    CRON_JOB,
    JOB,
    JOBSET,
    NAMESPACE,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
)
from muster.kube import config
from muster.kube.errors import ApiError, Forbidden, Invalid, NotFound
from muster.kube.http import HttpClient
from tests.cluster.conftest import ROOT, Cluster
from tests.cluster.test_batch_jobs import NAME, platform, status, training

__all__ = ["platform"]

RBAC: Final = "rbac.authorization.k8s.io"
ROLE_BINDING: Final = Kind(RBAC, "v1", "RoleBinding", "rolebindings", True, Resource)
CLUSTER_ROLE_BINDING: Final = Kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False, Resource)
ADMISSION: Final = "admissionregistration.k8s.io"
POLICY: Final = Kind(
    ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, Resource
)
BINDING: Final = Kind(
    ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False, Resource
)
DEPLOYMENT: Final = Kind("apps", "v1", "Deployment", "deployments", True, Resource)
#: As which the JobSet controller of this test works.
JOBSETS: Final = "system:serviceaccount:jobset-system:jobset-controller-manager"
TEMPLATE: Final[Object] = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]},
}
#: All that makes pods.
WAYS: Final[list[tuple[Kind[Any], Object]]] = [
    (POD, {"spec": TEMPLATE["spec"]}),
    (JOB, {"spec": {"template": TEMPLATE}}),
    (CRON_JOB, {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}}),
    (
        DEPLOYMENT,
        {
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}},
            }
        },
    ),
]


def on_the_page() -> list[Object]:
    """The policy of the page, and its binding."""
    text = (ROOT / "docs/reference/gates.md").read_text()
    [block] = [each for each in text.split("```yaml\n")[1:] if "ValidatingAdmissionPolicy\n" in each]
    return [*yaml.safe_load_all(block.partition("```")[0])]


def acting_as(cluster: Cluster, user: str, directory: Path) -> Path:
    """A kubeconfig of the administrator, who acts as a user."""
    found = yaml.safe_load(cluster.kubeconfig.read_text())
    found["users"][0]["user"]["as"] = user
    path = directory / user.replace(":", "-")
    path.write_text(json.dumps(found))
    return path


async def bind(cluster: Cluster, user: str, role: str) -> None:
    """Gives a user a ClusterRole in namespace ml."""
    body = {
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    await cluster.make(ROLE_BINDING, body, "ml")


async def attempt(client: HttpClient, kind: Kind[Any], body: Object) -> str:
    """The refusal of an object; "" if it is created, and deleted again."""
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "way"}, **body}
    try:
        await client.create(kind, "ml", whole)
    except (Forbidden, Invalid) as error:
        return error.message
    with suppress(NotFound):
        await client.delete(kind, "ml", "way")
    return ""


@pytest.fixture
async def jobs_run(platform: Cluster, tmp_path: Path) -> Cluster:
    """A cluster on which a BatchJob in namespace ml may do everything, and runs."""
    cluster = platform
    account = {"kind": "ServiceAccount", "namespace": "jobset-system", "name": JOBSETS.rpartition(":")[2]}
    admin = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": "jobset"}, "roleRef": admin, "subjects": [account]}
    await cluster.make(CLUSTER_ROLE_BINDING, body)
    kubeconfig = acting_as(cluster, JOBSETS, tmp_path)
    words = ("muster", "controllers", "--only=jobset", "--lease=default/jobset")
    cluster._muster("controllers", kubeconfig, *words)
    cluster.muster("fake-nodes", "8 x cpu=8,memory=64Gi,nvidia.com/gpu=1")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    everything = {"spec": {"policies": "permit (principal, action, resource);"}}
    await cluster.make(CEDAR_POLICY, {"metadata": {"name": "all"}, **everything})
    return cluster


async def runs(cluster: Cluster) -> bool:
    return (await status(cluster)).phase == "Running"


async def test_whoever_has_the_role_starts_what_policies_permit_and_nothing_else(
    jobs_run: Cluster, tmp_path: Path
) -> None:
    cluster = jobs_run
    await bind(cluster, "writer", "muster-batchjobs")
    writer = HttpClient(config.load(str(acting_as(cluster, "writer", tmp_path))))

    async def may() -> bool:
        await writer.list(BATCH_JOB, "ml")
        return True

    await cluster.until("the role is in effect", may)
    others: list[tuple[Kind[Any], Object]] = [
        (JOBSET, {"spec": {}}),
        (SECRET, {}),
        (CONFIG_MAP, {}),
        (SERVICE_ACCOUNT, {}),
    ]
    for kind, body in [*WAYS, *others]:
        assert f'cannot create resource "{kind.plural}"' in await attempt(writer, kind, body)
    with pytest.raises(Forbidden):
        await writer.list(SECRET, "ml")
    with pytest.raises(Forbidden):
        await writer.list(CEDAR_POLICY)
    await writer.create(BATCH_JOB, "ml", training())
    await cluster.until("the job runs", lambda: runs(cluster))

    async def seen() -> bool:
        return bool((await writer.list(POD, "ml")).items)

    await cluster.until("its pods are seen by whoever wrote it", seen)
    await writer.delete(BATCH_JOB, "ml", NAME)
    await writer.close()


async def test_the_policy_of_the_page_refuses_all_but_batch_jobs(jobs_run: Cluster, tmp_path: Path) -> None:
    cluster = jobs_run
    await bind(cluster, "editor", "edit")
    editor = HttpClient(config.load(str(acting_as(cluster, "editor", tmp_path))))
    label = {"batchjobs-only": "true"}
    await cluster.client.patch(NAMESPACE, "", "ml", {"metadata": {"labels": label}})
    try:
        for each in on_the_page():
            await cluster.make({POLICY.kind: POLICY, BINDING.kind: BINDING}[each["kind"]], each)

        async def refused() -> bool:
            return "write a BatchJob" in await attempt(editor, *WAYS[0])

        await cluster.until("the policy is in effect", refused)
        for kind, body in WAYS:
            assert "write a BatchJob; its pods are made for you" in await attempt(editor, kind, body)
        assert await attempt(editor, CONFIG_MAP, {}) == ""
        await bind(cluster, "editor", "muster-batchjobs")

        async def created() -> bool:
            await editor.create(BATCH_JOB, "ml", training())
            return True

        await cluster.until("the editor may write BatchJobs", created)
        await cluster.until("the job runs", lambda: runs(cluster))
    finally:
        for kind in (BINDING, POLICY):
            with suppress(ApiError):
                await cluster.client.delete(kind, "", "batchjobs-only")
        await cluster.client.patch(NAMESPACE, "", "ml", {"metadata": {"labels": dict.fromkeys(label)}})
        await editor.close()

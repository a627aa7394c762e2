"""BatchJobs on a real API server: the chapter's job, denied, permitted, run, and withdrawn."""

import base64
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.api.base import Kind, Object
from muster.api.core_v1 import Pod
from muster.api.kinds import (
    BATCH_JOB,
    CEDAR_POLICY,
    CONFIG_MAP,
    EMITTED,
    JOB,
    JOBSET,
    LATTICE_JOB,
    NAMESPACE,
    POD,
    QUEUE,
    SECRET,
    SERVICE_ACCOUNT,
    TRUST_POLICY,
)
from muster.api.muster_v1alpha1 import BatchJobStatus
from muster.kube.errors import NotFound
from tests.cluster.chart import ASLEEP, install
from tests.cluster.chart import NAMESPACE as MUSTERS
from tests.cluster.conftest import CRD, Cluster, open_definition, served
from tests.security.images import fakes
from tests.security.images.fakes import Store
from tests.security.images.test_verify import serving
from tests.workloads.batch.jobs import small

EXAMPLE: Final = Path(__file__).parents[2] / "examples/training.yaml"
NAME: Final = "training-run-42"
#: Kinds of other projects that the job is compiled to.
OTHERS: Final = (
    JOBSET,
    *(kind for kind in EMITTED if kind.group in ("external-secrets.io", "cilium.io")),
)
TRACING: Final = next(kind for kind in EMITTED if kind.kind == "TracingPolicyNamespaced")
#: What the job is denied without a policy.
DENIED: Final = [
    "external endpoint access denied",
    "image denied",
    "queue denied",
    "secret access denied",
    "secret access denied",
    "security override denied",
    "security override denied",
]


def training() -> Object:
    """The chapter's job as a BatchJob."""
    job: Object = yaml.safe_load(EXAMPLE.read_text())
    return {**job, "apiVersion": BATCH_JOB.api_version, "kind": BATCH_JOB.kind}


@pytest.fixture
async def platform(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster with nodes, muster's daemons, a JobSet controller, and the kinds that the job needs."""
    for kind in OTHERS:
        await cluster.make(CRD, open_definition(kind))
        await cluster.until(f"{kind.plural} are served", partial(served, cluster.client, kind))
    await cluster.make(NAMESPACE, {"metadata": {"name": "ml"}})
    for kind in (
        JOB,
        POD,
        SERVICE_ACCOUNT,
        CONFIG_MAP,
    ):  # of former jobs, which the cluster has yet to collect
        for each in await made(cluster, kind):
            await cluster.remove(kind, each)
    await cluster.make(QUEUE, {"metadata": {"name": "ml-training"}, "spec": {}})
    try:
        yield cluster
    finally:
        for kind in OTHERS:
            await cluster.client.delete(CRD, "", f"{kind.plural}.{kind.group}")


async def status(cluster: Cluster) -> BatchJobStatus:
    return (await cluster.client.get(BATCH_JOB, "ml", NAME)).status


async def made(cluster: Cluster, kind: Kind[Any]) -> list[Any]:
    """Objects in the job's namespace, but for those that every namespace has."""
    own = {"default", "kube-root-ca.crt"}
    return [each for each in (await cluster.client.list(kind, "ml")).items if each.metadata.name not in own]


async def count(cluster: Cluster, kind: Kind[Any]) -> int:
    return len(await made(cluster, kind))


async def test_an_image_has_to_be_signed_and_runs_by_its_digest(platform: Cluster) -> None:
    """The registry is of this test; the policy's key is in a Secret of muster's namespace."""
    cluster, chart = platform, platform.chart
    own = "controllers.config.batchJobs.loopbackRegistries=true"
    install(cluster.kubeconfig, chart.home, *ASLEEP, own)
    store, private = Store(), fakes.key()
    digest = store.image("v1", entrypoint=["/app"])
    cluster.muster("fake-nodes", "1 x cpu=8,memory=64Gi")
    cluster.muster("controllers", "--only=jobset", "--lease=default/jobset")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    everything = {"spec": {"policies": "permit (principal, action, resource);"}}
    await cluster.make(CEDAR_POLICY, {"metadata": {"name": "all"}, **everything})
    key = base64.b64encode(fakes.pem(private).encode()).decode()
    secret = {"metadata": {"name": "release"}, "data": {"cosign.pub": key}}
    await cluster.make(SECRET, secret, MUSTERS)
    async with serving(store.application()) as host:
        reference = {"namespace": MUSTERS, "name": "release", "key": "cosign.pub"}
        authority = {"name": "release", "key": {"secretRef": reference}}
        spec = {"match": {"images": [f"{host}/team/**"]}, "authorities": [authority]}
        await cluster.make(TRUST_POLICY, {"metadata": {"name": "team"}, "spec": spec})
        job = {"metadata": {"name": NAME}, "spec": yaml.safe_load(small())["spec"]}
        image = f"{host}/team/app:v1"
        container = job["spec"]["tasks"]["work"]["workload"]["containers"]["app"]
        container.pop("command", None)
        container["image"] = image
        await cluster.make(BATCH_JOB, job, "ml")

        async def refused() -> bool:
            return [each.message for each in (await status(cluster)).findings] == [
                "image verification denied: team: not signed by release (the image is not signed)"
            ]

        await cluster.until("the image is refused", refused)
        assert await count(cluster, JOBSET) == 0
        assert (await cluster.client.get(TRUST_POLICY, "", "team")).status.phase == "Valid"
        store.sign_bundle(digest, fakes.bundle(private, digest))
        # A policy that changes is asked again at once, and not after a minute.
        await cluster.client.patch(TRUST_POLICY, "", "team", {"spec": {"mode": "all"}})

        async def pods() -> list[Pod]:
            return (await cluster.client.list(POD, "ml")).items

        [pod, *_] = await cluster.until("the image is signed, and the job runs", pods)
    whole = await cluster.client.get_json(POD, "ml", pod.metadata.name)
    assert whole["spec"]["containers"][0]["image"] == f"{host}/team/app@{digest}"
    assert [(each.image, each.digest) for each in (await status(cluster)).images] == [(image, digest)]
    [policy] = (await cluster.client.list(TRACING, "ml")).items
    tracing = await cluster.client.get_json(TRACING, "ml", policy.metadata.name)
    [selector] = tracing["spec"]["kprobes"][0]["selectors"]
    assert selector["matchArgs"][0]["values"] == ["/app"]
    assert selector["matchActions"] == [{"action": "Sigkill"}]

    async def running() -> list[Pod]:
        found = await pods()
        return [each for each in found if each.status.phase == "Running"]

    [pod] = await cluster.until("its pod runs", running)
    await cluster.client.patch(
        POD, "ml", pod.metadata.name, {"status": {"phase": "Succeeded"}}, subresource="status"
    )

    async def succeeded() -> bool:
        return (await status(cluster)).phase == "Succeeded"

    await cluster.until("the job has succeeded", succeeded)
    [task] = (await status(cluster)).tasks
    assert (task.name, task.pods, task.succeeded, task.completed) == ("work", 1, 1, True)


async def test_each_run_of_a_schedule_is_a_batch_job_of_its_own(platform: Cluster) -> None:
    """The next full minute is waited for."""
    cluster = platform
    cluster.daemon("controllers")
    job = {"metadata": {"name": "nightly"}, "spec": yaml.safe_load(small())["spec"]}
    job["spec"]["schedule"] = "* * * * *"
    await cluster.make(BATCH_JOB, job, "ml")

    async def denied() -> list[str]:
        found = (await cluster.client.list(BATCH_JOB, "ml")).items
        runs = [each for each in found if each.metadata.name.startswith("nightly-")]
        return [each.status.message for each in runs if each.status.findings]

    [message, *_] = await cluster.until("a run has been made, and asked about", denied)
    assert message.startswith("image denied")
    await cluster.client.patch(BATCH_JOB, "ml", "nightly", {"spec": {"suspend": True}})

    async def suspended() -> bool:
        return (await cluster.client.get(BATCH_JOB, "ml", "nightly")).status.message.startswith("suspended")

    await cluster.until("no more runs are made", suspended)


async def test_the_chapters_job_is_denied_permitted_run_and_withdrawn(platform: Cluster) -> None:
    cluster = platform
    cluster.muster("fake-nodes", "8 x cpu=8,memory=64Gi,nvidia.com/gpu=1")
    cluster.muster("controllers", "--only=jobset", "--lease=default/jobset")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await cluster.make(BATCH_JOB, training(), "ml")

    async def denied() -> BatchJobStatus | None:
        found = await status(cluster)
        return found if found.findings else None

    told = await cluster.until("the job is denied", denied)
    assert sorted(each.message.partition(":")[0] for each in told.findings) == DENIED
    for kind in (*OTHERS, POD, SERVICE_ACCOUNT, CONFIG_MAP):
        assert await count(cluster, kind) == 0
    permits = "\n".join(each.fix for each in told.findings)
    await cluster.make(CEDAR_POLICY, {"metadata": {"name": "ml"}, "spec": {"policies": permits}})

    async def runs() -> bool:
        return (await status(cluster)).phase == "Running"

    await cluster.until("the job runs", runs)

    async def bound() -> bool:
        pods = (await cluster.client.list(POD, "ml")).items
        return len([each for each in pods if each.spec.node_name]) == 8

    await cluster.until("its pods are bound", bound)
    found = {kind.kind: await count(cluster, kind) for kind in OTHERS}
    assert found == {
        "JobSet": 1,
        "ExternalSecret": 2,
        "CiliumNetworkPolicy": 1,
        "TracingPolicyNamespaced": 1,
    }

    await cluster.client.delete(CEDAR_POLICY, "", "ml")

    async def gone() -> bool:
        kinds = (*OTHERS, JOB, POD, SERVICE_ACCOUNT, CONFIG_MAP)
        return not any([await count(cluster, kind) for kind in kinds])

    await cluster.until("everything is gone", gone)
    assert len((await status(cluster)).findings) == len(told.findings)


async def test_the_chapters_job_as_it_is_printed_has_a_batch_job_that_follows_it(platform: Cluster) -> None:
    """The kind is served, and may be read, only with the chart's value."""
    cluster = platform
    own = "controllers.config.batchJobs.latticeJobs=true"
    install(cluster.kubeconfig, cluster.chart.home, *ASLEEP, own)
    await cluster.until("LatticeJobs are served", partial(served, cluster.client, LATTICE_JOB))
    await cluster.may("controllers", "list", "latticejobs.lattice.dev")
    cluster.daemon("controllers")
    await cluster.make(LATTICE_JOB, yaml.safe_load(EXAMPLE.read_text()), "ml")

    async def told() -> list[str]:
        found = (await cluster.client.get(LATTICE_JOB, "ml", NAME)).status.findings
        return sorted(each.message.partition(":")[0] for each in found)

    try:
        assert await cluster.until("the job is denied", told) == DENIED
        change = {"queue": None, "minAvailable": 9}
        await cluster.client.patch(LATTICE_JOB, "ml", NAME, {"spec": change})

        async def carried() -> bool:
            return await told() == ["is 9, but all tasks together have 8 pods"]

        await cluster.until("a change is carried over", carried)
        kept = await cluster.client.get(BATCH_JOB, "ml", NAME)
        assert "queue" not in kept.spec
        assert [each.kind for each in kept.metadata.owner_references] == ["LatticeJob"]
    finally:
        with suppress(NotFound):
            await cluster.client.delete(LATTICE_JOB, "ml", NAME)


async def test_jobs_that_are_too_large_or_name_their_queue_aside_delay_no_other(platform: Cluster) -> None:
    cluster = platform
    cluster.daemon("controllers")
    await cluster.make(
        CEDAR_POLICY,
        {
            "metadata": {"name": "images"},
            "spec": {"policies": 'permit (principal, action == Muster::Action::"DeployImage", resource);'},
        },
    )
    one: Object = yaml.safe_load(small())
    task = one["spec"]["tasks"]["work"]
    endpoints = {f"e{number}": f"https://h{number}.example.com" for number in range(800)}
    resources = {"e": {"type": "external-service", "params": {"endpoints": endpoints}}}
    hostile = {
        "multiplied": {"tasks": {f"t{number}": task for number in range(500)}, "resources": resources},
        "heavy": {"tasks": {f"t{number}": task for number in range(100)}, "resources": resources},
        "wide": {**one["spec"], **{f"k{number}": 1 for number in range(50_000)}},
        "aside": one["spec"],
    }
    for name, spec in hostile.items():
        labels = {"muster.dev/queue": "ml-training"} if name == "aside" else {}
        await cluster.make(BATCH_JOB, {"metadata": {"name": name, "labels": labels}, "spec": spec}, "ml")
    await cluster.make(
        BATCH_JOB, {"metadata": {"name": "honest", "namespace": "default"}, "spec": one["spec"]}
    )

    async def decided(namespace: str, name: str) -> str:
        return (await cluster.client.get(BATCH_JOB, namespace, name)).status.message

    async def all_decided() -> bool:
        return all([await decided("ml", name) for name in hostile])

    async def compiled() -> bool:
        return await decided("default", "honest") not in ("", "compiled")

    await cluster.until("the honest job is compiled", compiled)
    await cluster.until("the others are refused", all_decided)
    told = {name: await decided("ml", name) for name in hostile}
    assert "the most is 100,000" in told["multiplied"]
    assert "permits or more; the most is 10,000" in told["heavy"]
    assert "entries; the most is 1,000" in told["wide"]
    assert "write spec.queue" in told["aside"]
    assert not await made(cluster, JOBSET)
    for namespace, name in (("default", "honest"), *(("ml", name) for name in hostile)):
        await cluster.client.delete(BATCH_JOB, namespace, name)
    await cluster.client.delete(CEDAR_POLICY, "", "images")

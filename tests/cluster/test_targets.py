"""BatchJobs for Volcano and for Kubernetes' own gangs, with Istio: muster's account may do what they need.

The job of tests/compiler/golden needs an object of every kind. The kinds of other projects are defined, and
none of their controllers runs. The API server also checks who may write owner references, as on OpenShift.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import pytest
import yaml

from muster import names
from muster.api.base import Kind
from muster.api.kinds import (
    BATCH_JOB,
    CEDAR_POLICY,
    EMITTED,
    JOBSET,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    QUEUE,
    SERVICE,
    VOLCANO_JOB,
)
from tests.cluster.chart import ASLEEP, install
from tests.cluster.conftest import CRD, Cluster, open_definition, served
from tests.compiler.test_golden import JOB, NAMED
from tests.workloads.batch.jobs import changed, small

#: Kinds that the API server does not have of its own.
DEFINED: Final = (JOBSET, *(kind for kind in EMITTED if not kind.group.endswith(".k8s.io")))
RUNS: Final[dict[str, Kind[Any]]] = {"native": JOBSET, "volcano": VOLCANO_JOB}  # Any: of two types
#: What only the roles of this target permit.
RIGHTS: Final = {"native": "podgroups.scheduling.k8s.io", "volcano": "jobs.batch.volcano.sh"}
S3: Final = {"type": "external-service", "params": {"endpoints": {"s3": "https://shared.example.com"}}}


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster with the kinds of other projects, which stay, and what the jobs name."""
    for kind in DEFINED:
        await cluster.make(CRD, open_definition(kind))
    spaces = {target: f"targets-{target}" for target in RUNS}
    for name in (*spaces.values(), "data"):
        await cluster.make(NAMESPACE, {"metadata": {"name": name}})
    await cluster.make(QUEUE, {"metadata": {"name": "training"}, "spec": {}})
    await cluster.make(PRIORITY_CLASS, {"metadata": {"name": "low"}, "value": 1})
    all_of_them = ",".join(f"{space}/*" for space in spaces.values())
    callers = {"name": "features", "annotations": {names.ALLOWED_CALLERS: all_of_them}}
    ports = {"selector": {"app": "features"}, "ports": [{"port": 80}]}
    await cluster.make(SERVICE, {"metadata": callers, "spec": ports}, "data")
    consumers = {"name": "vol-sets", "annotations": {names.ALLOWED_CONSUMERS: all_of_them}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for space in spaces.values():
        await cluster.make(PERSISTENT_VOLUME_CLAIM, {"metadata": consumers, "spec": claim}, space)
    for kind in DEFINED:
        await cluster.until(f"{kind.plural} are served", partial(served, cluster.client, kind))
    try:
        yield cluster
    finally:
        install(cluster.kubeconfig, cluster.chart.home, *ASLEEP)


@pytest.mark.parametrize(("target", "network"), [("native", "cilium"), ("volcano", "plain")])
async def test_the_controllers_may_create_share_and_delete_what_a_target_needs(
    site: Cluster, target: str, network: str
) -> None:
    cluster, run, space = site, RUNS[target], f"targets-{target}"
    chosen = {"target": target, "network": network, "mesh": "istio"}
    values = (f"controllers.config.batchJobs.{key}={value}" for key, value in chosen.items())
    install(cluster.kubeconfig, cluster.chart.home, *ASLEEP, *values)
    await cluster.may("controllers", "create", RIGHTS[target])
    cluster.daemon("controllers")
    permits = {"spec": {"policies": "permit (principal, action, resource);"}}
    await cluster.make(CEDAR_POLICY, {"metadata": {"name": "all"}, **permits})
    whole = changed(JOB, {} if target == "volcano" else {"spec/queue": None})
    if network == "plain":
        whole = changed(whole, NAMED)
    jobs = {"all": whole, "one": small(None, s3=S3), "other": small(None, s3=S3)}
    for name, text in jobs.items():
        await cluster.make(
            BATCH_JOB, {"metadata": {"name": name}, "spec": yaml.safe_load(text)["spec"]}, space
        )

    async def released() -> bool:
        runs = (await cluster.client.list(run, space)).items
        return sum(names.COMPILED in each.metadata.annotations for each in runs) == len(jobs)

    await cluster.until("all that the jobs need exists", released)
    needed = {"ServiceEntry", "AuthorizationPolicy", "ExternalSecret"}
    needed |= {"NetworkPolicy"} if network == "plain" else {"CiliumNetworkPolicy"}
    needed |= {"PodGroup"} if target == "native" else set()
    owners = []
    for kind in EMITTED:
        found = (await cluster.client.list(kind, space)).items if kind.kind in needed else []
        assert bool(found) == (kind.kind in needed), kind.kind
        if kind.kind == "ServiceEntry":
            owners = [sorted(owner.name for owner in each.metadata.owner_references) for each in found]
    assert ["one", "other"] in owners
    await cluster.client.delete(CEDAR_POLICY, "", "all")

    async def withdrawn() -> bool:
        """The garbage collector takes a minute to learn of new kinds, so the runs may still leave."""
        runs = (await cluster.client.list(run, space)).items
        return all(each.metadata.deletion_timestamp is not None for each in runs)

    await cluster.until("the runs are deleted", withdrawn)

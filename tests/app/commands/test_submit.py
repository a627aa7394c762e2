"""A file is submitted whole or not at all, and what can never start is known beforehand."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
import yaml

from muster import names as names_
from muster.api import kinds
from muster.api.base import Kind, Object, Resource
from muster.app.commands.cancel import cancel
from muster.app.commands.follow import Followed
from muster.app.commands.submit import Taken, jobs, submit
from muster.app.plan.proposal import applied
from muster.app.snapshot import Snapshot
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.apply import merge
from muster.kube.errors import Invalid, NotFound
from muster.runtime.mirror import WATCHED
from muster.workloads.jobfile import Caller, JobFile, Options, Source
from muster.workloads.kubernetes.objects import SUPPORTED
from muster.workloads.load import load
from muster.workloads.snapshot import typed
from tests.workloads.batch.jobs import small

FILE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {rate: "1"}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {restartPolicy: Never, containers: [{name: main, command: ["true"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec: {restartPolicy: Never, containers: [{name: main, command: ["true"]}]}
"""
GROUP = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: pair}
spec: {minMember: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {scheduling.x-k8s.io/pod-group: pair}}
spec: {containers: [{name: main, command: ["true"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {scheduling.x-k8s.io/pod-group: pair}}
spec: {containers: [{name: main, command: ["true"]}]}
"""


def read(text: str, **options: object) -> JobFile:
    return load("job.yaml", replace(Options(suffix="0123abcd"), **options), text=text)  # type: ignore[arg-type]


def manifest(resources: str, count: int = 2, mode: str = "independent") -> JobFile:
    types = f"types: {{worker: {{count: {count}, resources: {{{resources}}}}}}}"
    scheduling = f"scheduling: {{mode: {mode}}}"
    return read(f"name: job\nspec: {{operator: jobset, command: x, {scheduling}, {types}}}")


@pytest.fixture
def client() -> Iterator[LocalClient]:
    store = Store(":memory:")
    yield LocalClient(Registry(store))
    store.close()


async def node(client: LocalClient, name: str = "n", **resources: str) -> None:
    await client.create(kinds.NODE, "", {"metadata": {"name": name}})
    status = {"status": {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(kinds.NODE, "", name, status, subresource="status")


async def names(client: LocalClient) -> list[str]:
    found = [*(await client.list(kinds.POD)).items, *(await client.list(kinds.CONFIG_MAP)).items]
    return sorted(each.metadata.name for each in found if each.metadata.name != "kube-root-ca.crt")


async def test_the_jobs_of_a_file_are_what_is_followed(client: LocalClient) -> None:
    followed = (await submit(client, read(FILE))).jobs
    assert [(job.kind.kind, job.namespace, job.name) for job in followed] == [
        ("Pod", "default", "one"),
        ("Pod", "default", "two"),
    ]
    assert await names(client) == ["one", "settings", "two"]


async def test_a_refused_submission_changes_nothing(client: LocalClient) -> None:
    first, _, two = FILE.split("---")
    await submit(client, read(f"{first}---{two}"))
    before = await client.get_json(kinds.CONFIG_MAP, "default", "settings")
    changed = FILE.replace('rate: "1"', 'pace: "2"')
    told = (
        "Pod two exists already. Choose another name, run the file with --replace, or .*: `muster cancel two`"
    )
    with pytest.raises(Taken, match=told):
        await submit(client, read(changed), new=True)
    with pytest.raises(Taken, match="Pod two exists already, and cannot become what the file says: Pod"):
        await submit(client, read(changed.replace('["true"]}]}', '["false"]}]}')))
    assert await names(client) == ["settings", "two"]
    after = await client.get_json(kinds.CONFIG_MAP, "default", "settings")
    assert {**after, "metadata": {**after["metadata"], "resourceVersion": ""}} == {
        **before,
        "metadata": {**before["metadata"], "resourceVersion": ""},
    }


async def test_a_file_submitted_again_changes_what_it_changed(client: LocalClient) -> None:
    first, one, _ = FILE.split("---")
    await submit(client, read(f"{first}---{one}"))
    changed = f"{first}---{one}".replace('rate: "1"', 'pace: "2"')
    outcomes = (await submit(client, read(changed))).outcomes
    assert [(item.object["kind"], outcome.value) for item, outcome in outcomes] == [
        ("ConfigMap", "changed"),
        ("Pod", "unchanged"),
    ]
    settings = await client.get(kinds.CONFIG_MAP, "default", "settings")
    assert settings.data == {"pace": "2"}


async def owners(client: LocalClient) -> dict[str, list[str]]:
    """The uids of the owners of what a batch job needs, by kind."""
    found: list[tuple[str, Resource]] = []
    for kind in (kinds.CONFIG_MAP, kinds.SERVICE_ACCOUNT, kinds.PERSISTENT_VOLUME_CLAIM):
        listed = await client.list(cast("Kind[Resource]", kind), "ml")
        found += [(kind.kind, each) for each in listed.items]
    return {
        kind: [reference.uid for reference in each.metadata.owner_references]
        for kind, each in found
        if each.metadata.name.startswith(("job-", "vol-"))
    }


async def test_what_a_batch_job_needs_is_deleted_with_it_and_not_what_was_there_before(
    client: LocalClient,
) -> None:
    volume = {"type": "volume", "id": "data", "params": {"size": "1Gi"}}
    text = small({"variables": {"A": "b"}, "volumes": {"/d": {"source": "data"}}}, data=volume)
    account = {"metadata": {"name": "job-work", "namespace": "ml"}}
    await client.create(kinds.NAMESPACE, "", {"metadata": {"name": "ml"}})
    await client.create(kinds.SERVICE_ACCOUNT, "ml", account)
    for _ in range(2):  # the second time after the job is gone, and before its objects are collected
        [job] = (await submit(client, read(text))).jobs
        uid = (await client.get(kinds.JOBSET, job.namespace, job.name)).metadata.uid
        assert await owners(client) == {
            "ConfigMap": [uid],
            "ServiceAccount": [],
            "PersistentVolumeClaim": [],
        }
        await client.delete(kinds.JOBSET, job.namespace, job.name)


async def test_a_gang_that_runs_runs_on_though_it_is_submitted_again(client: LocalClient) -> None:
    """From another directory, and with a label less: its suspension was muster's, and is not stated."""
    job = gang_job("j", labels={"team": "a", names_.GANG: "true"})
    first = Source("/one/j.yaml", "me@here")
    await submit(client, load("j.yaml", Options(caller=Caller("/one")), text=job), source=first)
    await client.patch(kinds.JOB, "default", "j", {"spec": {"suspend": False}})
    job = gang_job("j", labels={names_.GANG: "true"})
    (_, outcome), *_ = (
        await submit(
            client,
            load("j.yaml", Options(caller=Caller("/two")), text=job),
            source=Source("/two/j.yaml", "you@there"),
        )
    ).outcomes
    found = await client.get(kinds.JOB, "default", "j")
    assert outcome.value == "changed"
    assert not found.spec.suspend
    assert found.metadata.labels[names_.ADMISSION] == "gang"
    assert "team" not in found.metadata.labels
    assert first.same(Source.read(found.metadata.annotations[names_.SUBMITTED_FROM])), "who made it"
    assert "/one" in found.spec.template["metadata"]["annotations"][names_.CALLER]


def gang_job(name: str, **metadata: object) -> str:
    template: Object = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "command": ["a"]}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}
    return yaml.safe_dump({**job, "metadata": {"name": name, **metadata}})


POD_SPEC: Object = {"restartPolicy": "Never", "containers": [{"name": "c", "command": ["a"]}]}
TEMPLATE: Object = {"template": {"spec": POD_SPEC}}
JOBSET_SPEC: Object = {"replicatedJobs": [{"name": "w", "template": {"spec": TEMPLATE}}]}
GANG_POLICY: Object = {"schedulingPolicy": {"gang": {"minCount": 3}}}
LAYERS: Object = {
    "networkTopologySpec": [
        {"labelKey": ["block"], "topologyLayer": "Block"},
        {"parentTopologyLayer": "Block", "topologyLayer": "NodeTopologyLayer"},
    ]
}
DEVICES: Object = {
    "devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "g", "allocationMode": "All"}}]}
}
#: Per kind: what a file says first, and then. Everything else that the first says goes.
EDITS: dict[Kind[Any], tuple[Object, Object]] = {
    kinds.JOBSET: ({"spec": {**JOBSET_SPEC, "ttlSecondsAfterFinished": 9}}, {"spec": JOBSET_SPEC}),
    kinds.JOB: (
        {"metadata": {"labels": {"a": "1"}}, "spec": {**TEMPLATE, "activeDeadlineSeconds": 9}},
        {"metadata": {"labels": {"a": "2"}}, "spec": TEMPLATE},
    ),
    kinds.POD: (
        {"metadata": {"labels": {"a": "1"}}, "spec": POD_SPEC},
        {"metadata": {"labels": {"b": "1"}}, "spec": POD_SPEC},
    ),
    kinds.POD_GROUP_K8S: (
        {"metadata": {"labels": {"a": "1"}}, "spec": GANG_POLICY},
        {"metadata": {"labels": {"b": "1"}}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
    ),
    kinds.WORKLOAD: (
        {"metadata": {"labels": {"a": "1"}}, "spec": {"podGroupTemplates": [{"name": "t", **GANG_POLICY}]}},
        {"metadata": {"labels": {"b": "1"}}, "spec": {"podGroupTemplates": [{"name": "t", **GANG_POLICY}]}},
    ),
    kinds.POD_GROUP_VOLCANO: (
        {"spec": {"minMember": 3, "priorityClassName": "p"}},
        {"spec": {"minMember": 2}},
    ),
    kinds.POD_GROUP_X: ({"spec": {"minMember": 3, "priorityClassName": "p"}}, {"spec": {"minMember": 2}}),
    kinds.POD_GROUP_SIGS: (
        {"spec": {"minMember": 3, "minResources": {"cpu": 1}}},
        {"spec": {"minMember": 2}},
    ),
    **dict.fromkeys(
        (kinds.POD_GROUP_INCUBATOR, kinds.POD_GROUP_SIGS_DEV),
        ({"spec": {"minMember": 3, "queue": "q"}}, {"spec": {"minMember": 2}}),
    ),
    kinds.CONFIG_MAP: ({"data": {"a": "1", "b": "2"}}, {"data": {"b": "3"}}),
    kinds.SECRET: ({"stringData": {"a": "1"}}, {"stringData": {"b": "2"}}),
    kinds.SERVICE: (
        {"spec": {"selector": {"a": "1"}, "ports": [{"port": 1}]}},
        {"spec": {"selector": {"b": "1"}}},
    ),
    kinds.SERVICE_ACCOUNT: ({"automountServiceAccountToken": False}, {}),
    kinds.PRIORITY_CLASS: ({"value": 5, "description": "x"}, {"value": 5}),
    kinds.RESOURCE_QUOTA: ({"spec": {"hard": {"cpu": "4", "pods": "2"}}}, {"spec": {"hard": {"pods": "3"}}}),
    kinds.PDB: (
        {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "1"}}}},
        {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"b": "1"}}}},
    ),
    kinds.CLUSTER_NETWORK_TOPOLOGY: ({"spec": {**LAYERS, "more": 1}}, {"spec": LAYERS}),
    kinds.QUEUE: (
        {"spec": {"closed": True, "capability": {"cpu": 4}, "weight": 3, "maxGangs": 2}},
        {"spec": {"guarantee": {"cpu": 2}}},
    ),
    kinds.QUEUE_VOLCANO: (
        {"spec": {"weight": 3, "capability": {"cpu": "4"}}},
        {"spec": {"reclaimable": False}},
    ),
    kinds.ELASTIC_QUOTA: (
        {"spec": {"min": {"cpu": 4, "memory": "1Gi"}, "max": {"cpu": "8"}}},
        {"spec": {"min": {"cpu": 4}}},
    ),
    kinds.DEVICE_CLASS: (
        {"spec": {"extendedResourceName": "g.example/a", "selectors": [{"cel": {"expression": "true"}}]}},
        {"spec": {"selectors": [{"cel": {"expression": "false"}}]}},
    ),
    kinds.RESOURCE_CLAIM: (
        {"metadata": {"labels": {"a": "1"}}, "spec": DEVICES},
        {"metadata": {"labels": {"b": "1"}}, "spec": DEVICES},
    ),
    kinds.RESOURCE_CLAIM_TEMPLATE: (
        {"metadata": {"labels": {"a": "1"}}, "spec": {"spec": DEVICES}},
        {"metadata": {"labels": {"b": "1"}}, "spec": {"spec": DEVICES}},
    ),
    kinds.NAMESPACE: (
        {"metadata": {"labels": {names_.GANG: "true"}}},
        {"metadata": {"annotations": {names_.GANG: "true"}}},
    ),
}


#: A Job of Volcano becomes a JobSet.
HANDED_IN = [kind for kind in SUPPORTED if kind is not kinds.VOLCANO_JOB]


@pytest.mark.parametrize("kind", HANDED_IN, ids=lambda kind: kind.plural + "." + kind.group)
async def test_a_field_that_the_file_no_longer_has_is_removed_and_plan_knows_it(
    client: LocalClient, kind: Kind[Any]
) -> None:
    def file(content: Object) -> JobFile:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **content}
        whole["metadata"] = {**content.get("metadata", {}), "name": "default" if topology else "x"}
        return load("x.yaml", Options(jobs=False), text=yaml.safe_dump(whole))

    topology = kind is kinds.CLUSTER_NETWORK_TOPOLOGY
    first, then = (file(content) for content in EDITS[kind])
    await submit(client, first)
    (item,) = then.items
    namespace, name = item.object["metadata"].get("namespace", ""), item.object["metadata"]["name"]
    others = {"metadata": {"annotations": {"theirs": "1"}}}
    await client.patch(kind, namespace, name, others)
    before = await client.get(kind, namespace, name)
    ((_, outcome),) = (await submit(client, then)).outcomes
    after, whole = await client.get(kind, namespace, name), await client.get_json(kind, namespace, name)
    assert outcome.value == "changed"
    assert whole["metadata"]["annotations"]["theirs"] == "1", "another's stays"
    fresh = LocalClient(Registry(Store(":memory:")))
    await submit(fresh, then)
    new = merge(await fresh.get_json(kind, namespace, name), others)
    if kind is not kinds.SECRET:  # stringData is only written, so what it no longer says stays
        assert _alike(whole) == _alike(new)
    if kind in WATCHED:
        (proposal,) = typed([item.object], [kind], proposed=True).items.values()
        assert _plain(applied(kind, before, proposal)) == _plain(after)


def _alike(obj: Object) -> Object:
    """Without what differs from one creation to the next."""
    uid = obj["metadata"]["uid"]
    found: Object = msgspec.json.decode(msgspec.json.encode(obj).replace(uid.encode(), b"uid"))
    for key in ("resourceVersion", "creationTimestamp", "generation"):
        found["metadata"].pop(key, None)
    return found


async def test_plan_refuses_the_objects_that_submit_refuses(client: LocalClient) -> None:
    """Without parallelism a Job's completions are 1, and may not become it."""
    spec: Object = {**TEMPLATE, "parallelism": 2}
    meta = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
    await submit(client, load("x.yaml", text=yaml.safe_dump({**meta, "spec": spec})))
    proposed: Kind[Any] = kinds.JOB
    before = await client.get(proposed, "default", "x")
    then = load("x.yaml", text=yaml.safe_dump({**meta, "spec": TEMPLATE}))
    with pytest.raises(Taken) as refused:
        await submit(client, then)
    assert isinstance(refused.value.__cause__, Invalid)
    (proposal,) = typed(then.objects, [kinds.JOB], proposed=True).items.values()
    with pytest.raises(Invalid) as planned:
        applied(proposed, before, proposal)
    assert str(planned.value) == str(refused.value.__cause__)
    assert "completions" in str(refused.value)


def _plain(resource: Resource) -> Object:
    metadata = msgspec.structs.replace(resource.metadata, resource_version="", generation=0)
    found: Object = msgspec.to_builtins(msgspec.structs.replace(resource, metadata=metadata))
    return {key: value for key, value in found.items() if key != "status"}  # the server writes it


async def test_pods_of_a_group_are_one_job_and_are_cancelled_with_it(client: LocalClient) -> None:
    (group,) = (await submit(client, read(GROUP))).jobs
    assert group == Followed(kinds.POD_GROUP_X, "default", "pair") == jobs(read(GROUP))[0]
    await cancel(client, group, (await client.list(kinds.POD)).items)
    assert await names(client) == []
    with pytest.raises(NotFound):
        await client.get(kinds.POD_GROUP_X, "default", "pair")
    await cancel(client, group, ())  # another client was quicker


async def never(client: LocalClient, job: JobFile, schedulers: frozenset[str] | None = None) -> list[str]:
    return (await Snapshot.around(client, job.objects, schedulers)).preflight(job.objects).never


async def test_a_job_that_fits_is_submitted_and_one_that_never_can_is_refused_with_the_reason(
    client: LocalClient,
) -> None:
    await node(client, cpu="4", memory="8Gi", pods="110")
    assert await never(client, manifest("cpus: 3, memory: 1")) == [], "one after the other"
    await client.patch(kinds.NODE, "", "n", {"spec": {"unschedulable": True}})
    assert await never(client, manifest("cpus: 3, memory: 1")) == [], "a cordon is not for ever"
    gang, advice = await never(client, manifest("cpus: 3, memory: 1", mode="gang"))
    assert "can never start here" in gang
    assert advice == 'simulated nodes would do: --nodes "1 x cpu=6,memory=2Gi"'
    large, _ = await never(client, manifest("cpus: 5, memory: 1"))
    assert "NothingMatches" in large
    gpu = manifest("cpus: 1, memory: 1, accelerators: {gpu: {count: 1}}")
    *_, missing, advice = await never(client, gpu)
    assert "there are no GPUs here" in missing
    assert advice == 'simulated nodes would do: --nodes "1 x cpu=1,memory=1Gi,nvidia.com/gpu=1"'
    await node(client, "g", **{"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "1"})
    assert await never(client, gpu) == []


async def test_a_suspended_job_may_select_what_is_not_there_yet(client: LocalClient) -> None:
    """Its author resumes it, perhaps with other selectors."""
    await node(client, cpu="4", memory="8Gi", pods="110")
    wants = yaml.safe_load(gang_job("j"))
    wants["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "none"}
    wants["spec"]["suspend"] = True
    assert await never(client, read(yaml.safe_dump(wants))) == []
    wants["spec"]["suspend"] = False
    (missing, *_) = await never(client, read(yaml.safe_dump(wants)))
    assert "pool=none" in missing


async def test_a_job_that_no_node_could_run_is_refused_on_any_cluster(client: LocalClient) -> None:
    """Where nodes may come, only what cannot be honoured is refused. What the file brings along counts."""
    job = gang_job("j", labels={names_.GANG: "true", names_.PRIORITY: "gold"})
    said = ["j can never start here: Invalid. PriorityClass gold does not exist"]
    muster = frozenset({"muster"})
    assert await never(client, read(job, local=False, runs=False), muster) == said
    assert (await never(client, read(job)))[0] == said[0]
    assert not any("--nodes" in each for each in await never(client, read(job)))
    gold = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n---\n"
    assert await never(client, read(gold + job, local=False, runs=False), muster) == []
    await submit(client, read(gold, jobs=False))
    assert await never(client, read(job, local=False, runs=False), muster) == []
    (unknown, *_) = await never(client, read(gang_job("j", labels={names_.GANG: "maybe"})))
    assert 'muster.dev/gang is \'maybe\'; write "true" or "false"' in unknown


async def kubectl_applied(client: LocalClient, kind: Kind[Any], owner: Resource | None = None) -> Resource:
    """The object of a file that was applied, and of what its controllers made of it so far."""
    meta: Object = {"name": "job"}
    if owner is not None:
        of = {"apiVersion": kinds.LATTICE_JOB.api_version, "kind": "LatticeJob", "name": "job"}
        meta["ownerReferences"] = [{**of, "uid": owner.metadata.uid, "controller": True}]
    return await client.create(kind, "ml", {"metadata": meta, "spec": {}})


@pytest.mark.parametrize("new", [True, False], ids=["run", "submit"])
@pytest.mark.parametrize("kind", ["BatchJob", "LatticeJob"])
async def test_a_file_whose_batch_job_exists_is_refused_by_its_own_kind(
    client: LocalClient, kind: str, new: bool
) -> None:
    """The cluster makes the JobSet of that name; the file's author never wrote one."""
    await client.create(kinds.NAMESPACE, "", {"metadata": {"name": "ml"}})
    above = await kubectl_applied(client, kinds.LATTICE_JOB) if kind == "LatticeJob" else None
    await kubectl_applied(client, kinds.BATCH_JOB, above)
    told = f"^{kind} job exists already; `kubectl apply` of the file changes it. Choose another name, run"
    with pytest.raises(Taken, match=told):
        await submit(client, read(small(), namespace="ml"), new=new)
    assert not (await client.list(kinds.JOBSET)).items
    assert not (await client.list(kinds.CONFIG_MAP)).items


async def test_a_second_run_speaks_of_what_its_author_wrote(client: LocalClient) -> None:
    await client.create(kinds.NAMESPACE, "", {"metadata": {"name": "ml"}})
    await submit(client, read(small()), new=True)
    told = "^BatchJob job exists already. Choose another name, run .* --replace, or .*: `muster cancel job`$"
    with pytest.raises(Taken, match=told):
        await submit(client, read(small()), new=True)
    other = read(small({"command": ["/bin/other"]}))
    with pytest.raises(
        Taken, match=r"^BatchJob job exists already, and cannot become what the file says: .*immutable"
    ):
        await submit(client, other)
    same = await submit(client, read(small()))
    assert {outcome.value for _, outcome in same.outcomes} == {"unchanged"}


async def test_a_job_that_is_being_deleted_is_waited_for_by_its_user(client: LocalClient) -> None:
    about: Object = {"name": "two", "finalizers": ["example.com/slow"]}
    pod: Object = {"metadata": about, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client.create(kinds.POD, "default", pod)
    await client.delete(kinds.POD, "default", "two", grace_period=0)
    for new in (True, False):
        with pytest.raises(
            Taken, match=r"Pod two exists already\. It is being deleted; try again when it is gone"
        ):
            await submit(client, read(FILE), new=new)

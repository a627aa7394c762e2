"""What the chart renders is what an API server takes, as strictly as it can check."""

from contextlib import nullcontext
from typing import Any

import pytest
import yaml

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import ADMITTING, GANG, GANG_PLAN
from muster.kube import config
from muster.kube.errors import Forbidden, NotFound
from muster.kube.http import HttpClient
from muster.runtime.mirror import WATCHED
from tests.cluster import kustomize
from tests.cluster.chart import NAMESPACE, Chart, rendered
from tests.cluster.conftest import CRD, Cluster, open_definition, served

SERVICE_MONITOR = Kind("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", True, Resource)
APPLY = ("apply", "--server-side", "--force-conflicts", "--validate=strict", "--warnings-as-errors")
ASLEEP = ("scheduler.replicas=0", "controllers.replicas=0")
LATTICE_JOBS = "controllers.config.batchJobs.latticeJobs"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
EVERYTHING = (
    *ASLEEP,
    "serviceMonitor.enabled=true",
    "serviceMonitor.labels.release=prometheus",
    "grafanaDashboard.enabled=true",
    "dashboard.enabled=true",
    "dashboard.hosts={muster.example.org}",
    "dashboard.tlsSecret=certificate",
    "dashboard.from[0].podSelector.matchLabels.a=b",
    "dashboard.env[0].name=A",
    "dashboard.extraArgs={--help}",
    "image.tag=v1",
    f"image.digest={DIGEST}",
    "imagePullSecrets[0].name=key",
    "nodeSelector.role=control",
    "tolerations[0].operator=Exists",
    "podLabels.a=b",
    "podAnnotations.a=b",
    "scheduler.config.schedulerNames={muster,second}",
    "scheduler.config.qps=50",
    "scheduler.extraArgs={--help}",
    "scheduler.env[0].name=A",
    "guard.users={root}",
    "controllers.config.only={gang,podgroup,batchjob,gpuhealth}",
    "controllers.config.batchJobs.target=volcano",
    "controllers.config.batchJobs.mesh=istio",
    "controllers.config.batchJobs.images=all",
    "controllers.config.batchJobs.registrySecrets={pull}",
    "controllers.config.batchJobs.loopbackRegistries=true",
    f"{LATTICE_JOBS}=true",
    "scheduler.config.journal.file=/var/lib/muster/journal.jsonl",
    "scheduler.journalVolume.emptyDir.sizeLimit=1Gi",
    "networkPolicy.egress[0].ports[0].port=4318",
    "networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b",
)
NOTHING = (
    *ASLEEP,
    "crds.install=false",
    "rbac.userRoles=false",
    "guard.enabled=false",
    "confine.enabled=false",
    "networkPolicy.enabled=false",
    "scheduler.recreatePods=false",
    "priorityClassName=",
)


def whole(kind: Kind[Any], body: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def objects(chart: Chart, *values: str) -> list[Any]:  # Any: JSON
    return [each for each in yaml.safe_load_all(rendered(chart.home, *values)) if each]


@pytest.mark.parametrize("values", [ASLEEP, EVERYTHING, NOTHING], ids=["default", "everything", "nothing"])
async def test_the_rendered_chart_is_accepted_with_strict_validation(
    cluster: Cluster, chart: Chart, values: tuple[str, ...]
) -> None:
    await cluster.make(CRD, open_definition(SERVICE_MONITOR))
    await cluster.until("ServiceMonitors are served", lambda: served(cluster.client, SERVICE_MONITOR))
    levels = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
    chart.kubectl("label", "--overwrite", "namespace", NAMESPACE, *levels)
    chart.kubectl(*APPLY, "--dry-run=server", "--filename=-", stdin=rendered(chart.home, *values))
    if values == ASLEEP:
        chart.kubectl(*APPLY, "--filename=-", stdin=rendered(chart.home, *values))
    for each in objects(chart, *values):
        if each["kind"] == "Deployment":  # pod security refuses pods, not what they are made from
            meta = {"name": "tried", "namespace": NAMESPACE}
            pod = {**each["spec"]["template"], "apiVersion": "v1", "kind": "Pod", "metadata": meta}
            create = ("create", "--dry-run=server", "--validate=strict", "--warnings-as-errors")
            chart.kubectl(*create, "--filename=-", stdin=yaml.safe_dump(pod))


async def test_users_however_mighty_write_no_plans(cluster: Cluster, chart: Chart) -> None:
    async def refused() -> bool:
        body = whole(GANG_PLAN, {"metadata": {"name": "forged"}, "spec": {"gang": "forged"}})
        try:
            await cluster.client.create(GANG_PLAN, "default", body)
        except Forbidden as error:
            return "only muster writes Gangs and GangPlans" in str(error)
        await cluster.client.delete(GANG_PLAN, "default", "forged")
        return False

    await cluster.until("the guard is up", refused)
    record = whole(
        GANG, {"metadata": {"name": "guarded", "finalizers": ["muster.dev/gang"]}, "spec": {"minCount": 1}}
    )
    with pytest.raises(Forbidden):
        await cluster.client.create(GANG, "default", record)
    scheduler = HttpClient(config.load(str(chart.kubeconfig("scheduler"))))
    try:
        await scheduler.create(GANG, "default", record)
        await scheduler.patch(GANG, "default", "guarded", {"status": {"phase": "Waiting"}})
    finally:
        await scheduler.close()
    for body in ({"spec": {"minCount": 2}}, {"status": {"phase": "Standing"}}, {"plan": {"epoch": 1}}):
        with pytest.raises(Forbidden):
            await cluster.client.patch(GANG, "default", "guarded", body)
    await cluster.client.patch(GANG, "default", "guarded", {"metadata": {"labels": {"a": "b"}}})
    await cluster.client.delete(GANG, "default", "guarded")
    await cluster.client.patch(GANG, "default", "guarded", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await cluster.client.get(GANG, "default", "guarded")


@pytest.mark.parametrize(
    ("verb", "what", "permitted"),
    [
        ("get", "configmaps/muster-rates", True),
        ("get", "leases.coordination.k8s.io/muster-scheduler", True),
        ("get", "leases.coordination.k8s.io/muster-controllers", False),
        ("list", "leases.coordination.k8s.io", False),
        ("patch", "leases.coordination.k8s.io/muster-scheduler", False),
    ],
)
def test_all_users_may_read_what_commands_need_to_know_and_no_more(
    chart: Chart, verb: str, what: str, permitted: bool
) -> None:
    user = ("--as=anyone", "--as-group=system:authenticated", f"--namespace={NAMESPACE}")
    # kubectl ends with 1 for "no"
    with nullcontext() if permitted else pytest.raises(AssertionError, match="\nno\n"):
        assert chart.kubectl("auth", "can-i", verb, what, *user) == "yes\n"


def test_the_scheduler_may_watch_what_its_mirror_shows(chart: Chart) -> None:
    (role,) = (
        each["rules"]
        for each in objects(chart)
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "muster-scheduler"
    )
    may = {
        (group, resource)
        for rule in role
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert may == {(kind.group, kind.plural) for kind in (*WATCHED, *ADMITTING)}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((), set()),
        (
            (f"{LATTICE_JOBS}=true",),
            {"CustomResourceDefinition", "batchjobs", "controllers", "edit", "view"},
        ),
        ((f"{LATTICE_JOBS}=true", "crds.install=false", "rbac.userRoles=false"), {"controllers"}),
        ((f"{LATTICE_JOBS}=true", "controllers.config.only={gang}"), set()),
    ],
)
def test_the_group_of_another_project_is_touched_only_if_a_value_says_so(
    chart: Chart, values: tuple[str, ...], found: set[str]
) -> None:
    named = [
        each["metadata"]["name"].removeprefix("muster-") if each["kind"] == "ClusterRole" else each["kind"]
        for each in objects(chart, *values)
        if "lattice.dev" in str(each)
    ]
    assert sorted(named) == sorted(found)


@pytest.mark.parametrize(
    "value", ["scheduler.replica=3", "controllers.config.only={job}", "port=80", "image=muster"]
)
def test_a_value_that_means_nothing_is_refused(chart: Chart, value: str) -> None:
    with pytest.raises(AssertionError, match="values don't meet the specifications"):
        rendered(chart.home, value)


def test_the_kustomize_base_is_the_chart(chart: Chart) -> None:
    """`make kustomize` brings it up to date."""
    assert list(yaml.safe_load_all((kustomize.BASE / "muster.yaml").read_text())) == kustomize.objects(
        chart.home
    )
    chart.kubectl(*APPLY, "--dry-run=server", f"--kustomize={kustomize.BASE}")
    built = list(yaml.safe_load_all(chart.kubectl("kustomize", str(kustomize.BASE))))
    names = [(each["kind"], each["metadata"]["name"]) for each in built]
    assert sorted(names) == sorted(
        [
            ("Namespace", NAMESPACE),
            *((e["kind"], e["metadata"]["name"]) for e in kustomize.objects(chart.home)),
        ]
    )


def test_an_image_with_a_digest_is_named_by_it(chart: Chart) -> None:
    def images(*values: str) -> set[str]:
        pods = [each["spec"]["template"] for each in objects(chart, *values) if each["kind"] == "Deployment"]
        return {container["image"] for pod in pods for container in pod["spec"]["containers"]}

    named = ("image.repository=registry.example.com/muster", "image.tag=v1")
    assert images(*named) == {"registry.example.com/muster:v1"}
    assert images(*named, f"image.digest={DIGEST}") == {f"registry.example.com/muster@{DIGEST}"}
    with pytest.raises(AssertionError, match="digest"):
        images("image.digest=latest")

"""Whether a job could ever start: the scheduler's answer about stages, gangs and independent pods."""

import pytest

from muster.app.plan.fit import as_nodes
from muster.app.plan.preflight import SURROUNDINGS, Preflight
from muster.app.snapshot import Snapshot
from muster.embedded.nodespec import read
from muster.workloads.jobfile import JobFile, Options
from muster.workloads.load import load
from muster.workloads.snapshot import Objects, typed


def preflight(job: JobFile, cluster: Objects | None = None) -> Preflight:
    return Snapshot(cluster or Objects()).preflight(job.objects)


NODES = as_nodes(read("2 x cpu=8,memory=32Gi"))
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  %s
  replicatedJobs:
  - {name: prepare, template: {spec: {parallelism: 10, completions: 10, template: {spec: {containers: [
      {name: c, image: i, command: [x], resources: {requests: {cpu: 1}}}]}}}}}
  - {name: work, %s template: {spec: {parallelism: %d, completions: 20, template: {spec: {containers: [
      {name: c, image: i, command: [x], resources: {requests: {cpu: 1}}}]}}}}}
"""
AFTER = "dependsOn: [{name: prepare, status: Complete}],"
IN_ORDER = "startupPolicy: {startupPolicyOrder: InOrder}"


@pytest.mark.parametrize(
    ("policy", "depends", "width", "mode", "said"),
    [
        ("", "", 6, "gang", []),
        ("", "", 7, "gang", ["train can never start here: InsufficientCapacity"]),
        ("", "", 17, "independent", []),
        # the stages of an order are gangs of their own: each has to fit, not all of them together
        ("", AFTER, 16, "gang", []),
        (IN_ORDER, "", 16, "gang", []),
        (IN_ORDER, "", 17, "gang", ["train/work can never start here: InsufficientCapacity"]),
    ],
)
def test_stages_that_run_at_the_same_time_have_to_fit_together(
    policy: str, depends: str, width: int, mode: str, said: list[str]
) -> None:
    text = JOBSET % (policy, depends, width)
    job = load("f.yaml", Options(suffix="0" * 8, mode="gang" if mode == "gang" else "independent"), text=text)
    assert [why.partition(". ")[0] for why in preflight(job).misfits(NODES)] == said


def test_a_stage_without_pods_fits_anywhere() -> None:
    text = JOBSET.replace("work, %s", "work, replicas: 0, %s") % (IN_ORDER, "", 100)
    assert not preflight(load("f.yaml", Options(suffix="0" * 8, mode="gang"), text=text)).misfits(NODES)


@pytest.mark.parametrize(
    ("nodes", "asks", "hinted"),
    [
        ("1 x cpu=8,memory=32Gi", "nvidia.com/gpu: 1", True),
        ("1 x cpu=8,memory=32Gi,nvidia.com/gpu=0", "nvidia.com/gpu: 1", True),
        ("1 x cpu=8,memory=32Gi,nvidia.com/gpu=1", "nvidia.com/gpu: 8", False),
        ("1 x cpu=8,memory=32Gi", "cpu: 100", False),
        ("1 x cpu=8,memory=32Gi", "memory: 100Gi", False),
    ],
)
def test_gpus_are_hinted_at_only_where_they_are_what_is_missing(nodes: str, asks: str, hinted: bool) -> None:
    text = JOBSET.replace("{requests: {cpu: 1}}", f"{{requests: {{{asks}}}, limits: {{{asks}}}}}")
    job = load("f.yaml", Options(suffix="0" * 8, mode="gang"), text=text % ("", "", 1))
    told = preflight(job).misfits(as_nodes(read(nodes)))
    assert "can never start here" in told[0]
    assert any("there are no GPUs here" in why for why in told) is hinted


TOPOLOGY = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: default}
spec: {networkTopologySpec: [{labelKey: [block], topologyLayer: Block},
  {parentTopologyLayer: Block, topologyLayer: NodeTopologyLayer}]}
---
"""
BLOCKS = as_nodes(read("2 x cpu=4,memory=8Gi,label:block=a; 2 x cpu=4,memory=8Gi,label:block=b"))
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {muster.dev/gang: "true"}%s}
spec:
  parallelism: %d
  completions: %d
  template: {spec: {restartPolicy: Never%s, containers: [
    {name: c, command: [x], resources: {requests: {cpu: %s, memory: 1Gi}}}]}}
"""
MUST = "gang.scheduling.koordinator.sh/network-topology-spec"


APART = (
    ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: ["
    "{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {job-name: j}}}]}}"
)


def gathered(layer: str) -> str:
    rule = f'{{"gatherStrategy":[{{"layer":"{layer}","strategy":"MustGather"}}]}}'
    return f", annotations: {{{MUST}: '{rule}'}}"


@pytest.mark.parametrize(
    ("more", "pods", "topology", "said"),
    [
        (gathered("Block"), 2, True, ""),
        (gathered("Block"), 3, True, "j can never start here: TopologyUnsatisfied"),
        (
            gathered("Blok"),
            1,
            True,
            "j can never start here: Invalid. there is no topology layer Blok; there are",
        ),
        (gathered("Block"), 1, False, "j can never start here: Invalid. there is no topology layer Block"),
        (", annotations: {muster.dev/exclusive: Block}", 4, True, ""),
        (
            ", annotations: {muster.dev/priority: gold}",
            1,
            True,
            "j can never start here: Invalid. PriorityClass gold",
        ),
        (
            ", annotations: {muster.dev/run-time: soon}",
            1,
            True,
            "j can never start here: Invalid. muster.dev/run-time",
        ),
    ],
)
def test_the_scheduler_itself_is_asked(more: str, pods: int, topology: bool, said: str) -> None:
    text = TOPOLOGY * topology + JOB % (more, pods, pods, "", 4)
    job = load("f.yaml", text=text)
    known = preflight(job)
    found = known.misfits(BLOCKS)
    assert len(found) == bool(said)
    assert all(each.startswith(said) for each in found)
    if "Invalid" in said:
        assert known.invalid() == {"j": found[0]}
        assert known.advice() is None, "no node helps"
    elif said:
        assert known.advice() is None, "what is advised has no blocks, so that it would not start there"


@pytest.mark.parametrize(
    ("more", "pods", "cpu", "wanted"),
    [
        ("", 3, "1500m", "1 x cpu=4.5,memory=3Gi"),
        ("", 200, "1", "1 x cpu=200,memory=200Gi,pods=200"),
        (", nodeSelector: {zone: b}", 2, "1", "1 x cpu=2,memory=2Gi,label:zone=b"),
        (
            ", nodeSelector: {nvidia.com/gpu.product: A}",
            1,
            "1, nvidia.com/gpu: 2",
            "1 x cpu=1,memory=1Gi,nvidia.com/gpu=2,product=A",
        ),
        (
            APART,
            3,
            "1",
            "3 x cpu=1,memory=1Gi",
        ),
        ("", 4, "1, nvidia.com/gpu: 2", "1 x cpu=4,memory=4Gi,nvidia.com/gpu=8"),
        ("", 9, "1, nvidia.com/gpu: 8", "9 x cpu=1,memory=1Gi,nvidia.com/gpu=8"),
        (", nodeSelector: {kubernetes.io/hostname: my-host}", 1, "1", None),
        ("", 1, "1000000000", None),
    ],
)
def test_advice_would_start_the_job(more: str, pods: int, cpu: str, wanted: str | None) -> None:
    text = JOB % ("", pods, pods, more, cpu)
    job = load("f.yaml", text=text.replace("requests: {", "limits: {"))
    given = preflight(job).advice()
    assert given == (None if wanted is None else f'--nodes "{wanted}"')
    if wanted is not None:
        assert preflight(job).misfits(as_nodes(read(wanted))) == []


QUEUED = """
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: prod}
spec: {capability: {cpu: %d}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {muster.dev/queue: %s, muster.dev/gang: "true"}}
spec: {parallelism: 6, completions: 6, template: {spec: {restartPolicy: Never, containers: [
  {name: c, image: i, command: [x], resources: {requests: {cpu: 1}}}]}}}
"""


@pytest.mark.parametrize(
    ("cap", "queue", "why"),
    [
        (6, "prod", None),
        (
            5,
            "prod",
            "QuotaExceeded even if nothing else runs: queue prod uses 0 of its 5 CPUs; 6 more would be 6",
        ),
        (6, "nosuch", "Invalid: there is no queue nosuch; there are default, prod"),
        (6, "default", None),
    ],
)
def test_a_queue_that_never_admits_a_job_is_known_beforehand(cap: int, queue: str, why: str | None) -> None:
    found = preflight(load("f.yaml", text=QUEUED % (cap, queue))).barred
    assert found == ({} if why is None else {"j": f"{why}. The job waits until the queues are changed"})


@pytest.mark.parametrize("rule", ['"strategy":"MustGather"', '"podCountMultiple":2'])
def test_a_required_layer_is_no_matter_of_queues(rule: str) -> None:
    told = f', annotations: {{{MUST}: \'{{"gatherStrategy":[{{"layer":"Block",{rule}}}]}}\'}}'
    job = load("f.yaml", text=JOB % (told, 2, 2, "", 1))
    blocks = load("t.yaml", text=TOPOLOGY + JOB % ("", 1, 1, "", 1)).objects
    assert preflight(job, typed(blocks, SURROUNDINGS)).barred == {}


def test_pods_that_start_alone_are_tried_once_a_shape() -> None:
    job = load("f.yaml", Options(mode="independent"), text=JOB % ("", 30_000, 30_000, "", 9))
    (said,) = preflight(job).misfits(NODES)
    assert said.startswith("j/main-0 can never start here: NothingMatches. a pod asks 9 CPUs")


def test_defaults_of_the_api_server_count() -> None:
    text = """
apiVersion: batch/v1
kind: Job
metadata: {name: silent}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, command: [x]}]}}}
"""
    item = {"type": "Container", "default": {"cpu": "9"}}
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": [item]},
    }
    job = load("f.yaml", text=text)
    assert preflight(job).misfits(NODES) == []
    (said,) = preflight(job, typed([limits], SURROUNDINGS)).misfits(NODES)
    assert "a pod asks 9 CPUs; the largest matching node has 8" in said


HIGH = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n---\n"


@pytest.mark.parametrize(("priority", "told"), [("1000", ""), ("5000", "5000"), ("high", "")])
def test_a_priority_that_is_lowered_is_known_beforehand(priority: str, told: str) -> None:
    job = load("f.yaml", text=JOB % (f', annotations: {{muster.dev/priority: "{priority}"}}', 2, 2, "", 1))
    cluster = typed(load("c.yaml", text=HIGH + JOB % ("", 1, 1, "", 1)).objects, SURROUNDINGS)
    found = preflight(job, cluster).warnings()
    assert [*found] == ["j"] * bool(told)
    assert told in "".join(found.values())
    assert not told or "1000" in found["j"]


KOORDINATOR = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: default}
spec:
  networkTopologySpec:
  - {labelKey: [spine], topologyLayer: SpineLayer}
  - {parentTopologyLayer: SpineLayer, topologyLayer: NodeTopologyLayer}
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: m
  annotations:
    gang.scheduling.koordinator.sh/network-topology-spec: '{"gatherStrategy": [%s]}'
spec: {minMember: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {pod-group.scheduling.sigs.k8s.io: m}}
spec: {containers: [{name: c, image: i, command: [x]}]}
"""


@pytest.mark.parametrize(
    ("layer", "strategy", "said"),
    [
        ("SpineLayer", "MustGather", {}),
        ("spineLayer", "MustGather", {"m": "layer spineLayer is called SpineLayer here, and taken for it"}),
        (
            *("AcceleratorLayer", "PreferGather"),
            {"m": "there is no topology layer AcceleratorLayer, its preference is ignored"},
        ),
    ],
)
def test_layers_that_are_spelt_otherwise_or_are_not_there_are_told_before_a_submit(
    layer: str, strategy: str, said: dict[str, str]
) -> None:
    rule = f'{{"layer": "{layer}", "strategy": "{strategy}"}}'
    job = load("f.yaml", Options(suffix="0" * 8), text=KOORDINATOR % rule)
    assert preflight(job).warnings() == said

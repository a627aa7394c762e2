"""Limits of a pod's and a gang's terms: at the limit all is read, beyond it the gang is Invalid by name."""

from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.api.core_v1 import Namespace
from muster.api.jobset_v1alpha2 import JobSet
from muster.core.words.gang import Code, Gate, PodSet, PodTerm, Shape
from muster.translate import limits, surroundings
from muster.translate.dialects import LONGEST_REFUSAL
from muster.translate.identity import GroupKey
from muster.translate.jobset import MOST_REPLICATED
from muster.translate.jobset import keys as jobset_keys
from muster.translate.pods import asked, pod_bound
from tests.translate.cluster import grouped, job, jobset, pod, pod_group, pod_spec, read, world

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def expressions(count: int, values: int = 0) -> list[Object]:
    some = [f"v{j}" for j in range(values)]
    return [{"key": f"k{i}", "operator": "NotIn" if some else "Exists", "values": some} for i in range(count)]


def node_terms(*terms: list[Object]) -> Object:
    matching = [{"matchExpressions": term} for term in terms]
    return pod_spec(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": matching}}})


def namespace(name: str, **labels: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)


def term(**fields: object) -> Object:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **fields}


def apart(count: int, **fields: object) -> Object:
    """`count` terms, of which one is of pod affinity and one is preferred."""
    soft = [{"weight": 1, "podAffinityTerm": term(**fields)}]
    return pod_spec(
        affinity={
            "podAffinity": {REQUIRED: [term(**fields)]},
            "podAntiAffinity": {REQUIRED: [term(**fields)] * (count - 2), PREFERRED: soft},
        }
    )


def spreads(count: int, selector: Object | None = None) -> Object:
    one = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector or {}}
    return pod_spec(topologySpreadConstraints=[{"topologyKey": f"k{i}", **one} for i in range(count)])


#: Constants of `names` whose marks are read from gangs and their pods.
MARKS: Final = frozenset(
    {
        "CHECKPOINT",
        "CHECKPOINT_GRACE",
        "EXCLUSIVE",
        "GANG",
        "GPU_SHARE",
        "HOLD",
        "MIN_RUN_TIME",
        "ON_PARTIAL",
        "PREEMPTIBLE",
        "PRIORITY",
        "QUEUE",
        "RESTART_COST",
        "RUN_TIME",
    }
)
#: by the words of the refusal: a pod spec with so many of them, and the most
LIMITS: dict[str, tuple[Callable[[int], Object], int]] = {
    "labels in nodeSelector": (
        lambda n: pod_spec(nodeSelector={f"k{i}": "v" for i in range(n)}),
        limits.SELECTOR_LABELS,
    ),
    "tolerations": (
        lambda n: pod_spec(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(n)]),
        limits.TOLERATIONS,
    ),
    "requirements of node affinity": (
        lambda n: node_terms(*([one] for one in expressions(n))),
        limits.NODE_REQUIREMENTS,
    ),
    "values of node affinity": (
        lambda n: node_terms(expressions(1, n - 4), expressions(1, 4)),
        limits.NODE_VALUES,
    ),
    "terms of pod affinity and anti-affinity": (apart, limits.POD_TERMS),
    "topologySpreadConstraints": (spreads, limits.SPREADS),
    "requirements of label selectors": (
        lambda n: spreads(2, {"matchExpressions": expressions(n // 2)}),
        limits.POD_REQUIREMENTS,
    ),
    "values of label selectors": (
        lambda n: spreads(1, {"matchExpressions": expressions(2, n // 2)}),
        limits.POD_VALUES,
    ),
    "namespaces": (
        lambda n: apart(4, namespaces=[f"n{i}" for i in range(n // 4)]),
        limits.NAMESPACES,
    ),
    "containers": (
        lambda n: {"containers": [{"name": f"c{i}"} for i in range(n // 2)] * 2},
        limits.CONTAINERS,
    ),
    "different resources": (
        lambda n: pod_spec(
            containers=[{"name": "c", "resources": {"requests": {f"e/r{i}": "1" for i in range(n)}}}]
        ),
        limits.RESOURCES,
    ),
    "PersistentVolumeClaims": (
        lambda n: pod_spec(
            volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": "c"}} for i in range(n)]
        ),
        limits.CLAIMS,
    ),
    "host ports": (
        lambda n: pod_spec(containers=[{"name": "c", "ports": [{"hostPort": 1 + i} for i in range(n)]}]),
        limits.HOST_PORTS,
    ),
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_pod_at_a_limit_is_read_and_beyond_it_the_refusal_names_the_limit(what: str) -> None:
    make, most = LIMITS[what]
    assert asked(pod("p", spec=make(most))).refusal is None
    refused = asked(pod("p", spec=make(most + most // 8))).refusal
    assert refused is not None
    assert refused.code is Code.INVALID
    assert what in refused.message
    assert f"at most {most} " in refused.message


@pytest.mark.parametrize("what", LIMITS)
def test_a_pod_on_a_node_counts_there_though_it_exceeds_a_limit(what: str) -> None:
    make, most = LIMITS[what]
    amounts = {"resources": {"requests": {"cpu": "2"}}}
    spec = make(2 * most)
    spec["containers"] = [{**spec["containers"][0], **amounts}]
    bound = pod_bound(pod("p", spec=spec, node="n"))
    assert dict(bound.requests)["cpu"] == 2000
    assert len(bound.footprint.ports) <= limits.HOST_PORTS
    assert len(bound.footprint.pod_anti_affinity) <= limits.POD_TERMS


def test_a_pod_on_a_node_is_charged_for_as_many_resources_as_a_pod_may_name() -> None:
    """Of all its containers, and for Kubernetes' own resources in any case."""
    many = [
        {"name": f"c{i}", "resources": {"requests": {"cpu": "1m", f"a/r{i}": "1"}}}
        for i in range(2 * limits.CONTAINERS)
    ]
    found = dict(pod_bound(pod("p", spec={"containers": many}, node="n")).requests)
    assert found["cpu"] == 2 * limits.CONTAINERS
    assert len(found) == limits.RESOURCES
    assert asked(pod("p", spec={"containers": many})).shape == Shape(requests=())


def test_a_gang_has_a_limit_of_pod_sets() -> None:
    def one(count: int) -> Gate | None:
        pods = [grouped(f"p{i}", spec=pod_spec(f"{i + 1}m")) for i in range(count)]
        group = read(GroupKey(groups.POD_GROUP, "ns", "g"), world(pod_group("g", 1), *pods))
        assert group is not None
        return group.gang.gate

    most = limits.POD_SETS
    assert one(most) is None
    said = (
        f"its pods have {most + 1} different requests and constraints; muster takes at most {most} of a gang"
    )
    assert one(most + 1) == Gate(Code.INVALID, said)


@pytest.mark.parametrize("staged", [False, True])
def test_a_jobset_has_a_limit_of_replicated_jobs_and_is_one_gang_beyond_it(staged: bool) -> None:
    def one(count: int) -> JobSet:
        order = {"startupPolicyOrder": "InOrder" if staged else "AnyOrder"}
        return jobset("s", {f"w{i}": {} for i in range(count)}, startupPolicy=order)

    within, beyond = one(MOST_REPLICATED), one(MOST_REPLICATED + 1)
    assert len(jobset_keys(within, world())) == (MOST_REPLICATED if staged else 1)
    (key,) = jobset_keys(beyond, world())
    group = read(key, world(beyond))
    assert group is not None
    said = f"spec.replicatedJobs has {MOST_REPLICATED + 1} entries; muster takes at most {MOST_REPLICATED}"
    assert (group.gang.gate, group.gang.pod_sets) == (Gate(Code.INVALID, f"{said} of a gang"), ())


@pytest.mark.parametrize("key", [value for name, value in vars(names).items() if name in MARKS])
@pytest.mark.parametrize("kind", ["group", "pod", "job"])
def test_what_a_mark_says_is_quoted_with_a_limit(key: str, kind: str) -> None:
    """An annotation may have 256 KiB; what a gang's record quotes of it is short."""
    notes = {key: "x" * 250_000}
    here, of = {
        "group": (world(pod_group("g", 1, annotations=notes), grouped("p")), groups.POD_GROUP),
        "pod": (world(pod("g", annotations=notes)), groups.POD),
        "job": (world(job("g", gang="true", annotations=notes)), groups.JOB),
    }[kind]
    group = read(GroupKey(of, "ns", "g"), here)
    assert group is not None
    assert len(repr(group.gang)) < 4 * LONGEST_REFUSAL


def test_namespaces_that_a_selector_selects_count_for_each_term() -> None:
    many = [namespace(f"n{i}", x="y") for i in range(limits.NAMESPACES // 4)]
    selector = {"namespaceSelector": {"matchLabels": {"x": "y"}}}
    here = world(*many)
    assert asked(pod("p", spec=apart(4, **selector)), here).refusal is None
    refused = asked(pod("p", spec=apart(5, **selector)), here).refusal
    assert refused is not None
    assert "namespaces" in refused.message


def test_equal_selectors_share_what_they_select() -> None:
    here = world(namespace("a", x="y"), namespace("b"))
    one = {"namespaceSelector": {"matchLabels": {"x": "y"}}}
    spec = pod("p", spec=apart(3, **one))
    first, *others = surroundings.surroundings(spec, here, None).selected
    assert first == ("a",)
    assert all(other is first for other in others)
    assert len(here.selected_namespaces) == 1


def test_a_job_beyond_a_limit_is_invalid() -> None:
    group = read(
        GroupKey(groups.JOB, "ns", "j"),
        world(job("j", gang="true", template={"spec": spreads(limits.SPREADS + 1)})),
    )
    assert group is not None
    assert group.gang.gate is not None
    assert group.gang.gate.code is Code.INVALID
    assert "topologySpreadConstraints" in group.gang.gate.message


def test_terms_add_up_over_the_pod_sets_of_a_gang() -> None:
    several = Shape((), pod_anti_affinity=tuple(PodTerm(f"k{i}", (), None) for i in range(8)))
    most = limits.TERMS_OF_GANG // 8
    sets = [PodSet(f"s{i}", several, 1) for i in range(most)]
    assert limits.of_gang(sets) is None
    refused = limits.of_gang([*sets, PodSet("one-more", several, 1)])
    assert refused is not None
    assert f"at most {limits.TERMS_OF_GANG}" in refused.message

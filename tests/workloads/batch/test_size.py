"""Jobs that are too large: refused with the number and the limit, before anything is multiplied."""

from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.compiler.draft import MAX_EXPANDED, MAX_PROBLEMS
from muster.compiler.facts import Facts
from muster.security.policies import Policies
from muster.workloads.batch import cluster, compiling, size
from muster.workloads.batch.merging import Merged
from tests.workloads.batch.jobs import compiled, parsed, small

CONTAINER: Final[dict[str, Any]] = {
    "image": "registry.example.com/app@sha256:" + "a" * 64,
    "command": ["/bin/app"],
    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
}


def of(tasks: int = 1, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A job of so many tasks, whose container has these fields, with these fields of its spec."""
    task = {"workload": {"containers": {"app": CONTAINER | (container or {})}}}
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": "job", "namespace": "ml"},
        "spec": {"tasks": {f"t{number}": task for number in range(tasks)}, **spec},
    }


def numbered(number: int, value: Any = 1) -> dict[str, Any]:
    return {f"k{each}": value for each in range(number)}


LONG: Final = size.MAX_ENTRIES + 1
RESOURCES: Final = {
    "keys": {"type": "secret", "params": {"keys": [*numbered(LONG)]}},
    "endpoints": {"type": "external-service", "params": {"endpoints": numbered(LONG, "https://a.b")}},
}


@pytest.mark.parametrize(
    ("job", "field"),
    [
        (of(**numbered(LONG)), "spec"),
        (of(resources=numbered(LONG, {"type": "x"})), "spec.resources"),
        (of(resources={"a": RESOURCES["keys"]}), "spec.resources.a.params.keys"),
        (of(resources={"a": RESOURCES["endpoints"]}), "spec.resources.a.params.endpoints"),
        (of(defaults={"workload": {"containers": numbered(LONG)}}), "spec.defaults.workload.containers"),
        (of(container={"variables": numbered(LONG, "x")}), "spec.tasks.t0.workload.containers.app.variables"),
        (of(container={"args": ["x"] * LONG}), "spec.tasks.t0.workload.containers.app.args"),
    ],
)
def test_a_mapping_or_list_that_is_too_long_is_the_only_finding(job: dict[str, Any], field: str) -> None:
    _, [found] = cluster.compiled(job, Facts(), None)
    assert found.field == field
    assert found.message.endswith(" entries; the most is 1,000")


@pytest.mark.parametrize(
    "shared",
    [
        {"defaults": {"workload": numbered(900)}},
        {"resources": numbered(200, {"type": "x", "params": {"a": "b"}})},
        {"defaults": {"workload": {"containers": {"app": {"variables": {"A": "${metadata.name}" * 900}}}}}},
    ],
)
def test_what_is_shared_counts_once_for_each_task(shared: dict[str, Any]) -> None:
    assert size.excess(of(tasks=1, **shared)) is None
    excess = size.excess(of(tasks=400, **shared))
    assert excess is not None
    path, message = excess
    assert path == ("spec", "tasks")
    assert "values, with the defaults and shared resources of each task; the most is 100,000" in message


def test_text_counts_once_for_each_task() -> None:
    shared = {"workload": {"containers": {"app": {"files": {"/f": {"content": "x" * 100_000}}}}}}
    assert size.excess(of(tasks=50, defaults=shared)) is None
    excess = size.excess(of(tasks=100, defaults=shared))
    assert excess is not None
    assert "characters" in excess[1]


def test_nesting_is_bounded() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": deep}
    excess = size.excess(of(defaults=deep))
    assert excess is not None
    assert excess[1] == "is nested deeper than 40 levels"


JSON = st.recursive(
    st.none() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=20,
)


def counted(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(counted, value.values()))
    return 1 + sum(map(counted, value)) if isinstance(value, list) else 1


@given(defaults=st.dictionaries(st.sampled_from("abc"), JSON), tasks=st.integers(1, 4), task=JSON)
def test_no_task_with_its_defaults_has_more_than_is_counted(
    defaults: dict[str, Any], tasks: int, task: Any
) -> None:
    class Document:
        value = of(defaults=defaults) | {}

        def finding(self, *_: Any) -> Any:
            raise AssertionError

    spec: dict[str, Any] = Document.value["spec"]
    spec["tasks"] = {f"t{number}": {"workload": task} for number in range(tasks)}
    merged = Merged(Document())
    read = sum(counted(merged.task(name)) for name in spec["tasks"])
    values = sum(
        size._counted(value, ())[0] * (tasks if name in ("defaults", "resources") else 1)
        for name, value in spec.items()
    )
    assert read <= values + 4 * tasks  # the mappings that merging adds


def test_placeholders_expand_to_a_bounded_text() -> None:
    text = small(
        {"variables": {"A": "${resources.c.text}" * 1_000}}, c={"type": "x", "params": {"text": "x" * 50_000}}
    )
    [problem] = compiled(text).problems
    assert problem.message == f"the task's placeholders expand to more than {MAX_EXPANDED:,} characters"


def test_placeholders_of_all_tasks_expand_to_a_bounded_text() -> None:
    variables = {"A": "${resources.c.text}" * 20}
    job = of(9, {"variables": variables}, resources={"c": {"type": "x", "params": {"text": "x" * 50_000}}})
    [problem] = compiled(yaml.safe_dump(job)).problems
    assert problem.message.endswith("the most is 8,388,608; make several jobs")


def test_a_task_is_not_searched_for_more_problems_than_people_read() -> None:
    variables = numbered(900, "${resources.nope.k}")
    text = yaml.safe_dump(of(container={"variables": variables}, resources=numbered(100, {"type": "x"})))
    assert len(compiled(text).problems) == MAX_PROBLEMS


def test_permits_and_their_product_with_policies_are_bounded() -> None:
    binaries = {"security": {"allowedBinaries": [f"/bin/{number}" for number in range(900)]}}
    [problem] = compiled(yaml.safe_dump(of(12, binaries))).problems
    assert problem.message == "need 10,812 permits or more; the most is 10,000; make several jobs"
    policies = Policies({"many": "permit (principal, action, resource);" * 1_200})
    [problem] = compiled(yaml.safe_dump(of(2, binaries)), policies=policies).problems
    assert problem.message == (
        "need 1,802 permits or more, and there are 1,200 policies; their product is at most "
        f"{compiling.MOST_EVALUATIONS:,}; make several jobs"
    )


def test_no_further_task_is_compiled_after_so_many_problems() -> None:
    text = yaml.safe_dump(of(50, {"variables": numbered(100, "${resources.nope.k}")}))
    assert compiling.MOST_PROBLEMS < len(compiled(text).problems) < compiling.MOST_PROBLEMS + MAX_PROBLEMS + 1


def test_objects_are_bounded() -> None:
    hosts = {f"e{number}": f"https://h{number}.example.com" for number in range(30)}
    resource = {"type": "external-service", "params": {"endpoints": hosts}}
    result = compiled(yaml.safe_dump(of(180, resources={"e": resource})), facts=Facts(istio=True))
    [problem] = result.problems
    assert problem.message == "need 6,180 objects; the most is 5,000; make several jobs"


def test_unknown_fields_are_named_up_to_a_number_and_counted_beyond() -> None:
    _, found = parsed(yaml.safe_dump(of(**numbered(500))))
    assert len(found) == 21
    assert found[-1].message == "has 480 more unknown fields"


def test_a_host_of_many_hyphens_is_read_in_linear_time() -> None:
    host = "s3" + ".".join(["-a" * 30, "a" + "-a" * 30, "a" + "-a" * 30])
    resource = {"type": "external-service", "params": {"endpoints": {"a": f"https://{host}"}}}
    assert not compiled(small(s=resource)).problems

"""Any manifest compiles to what it says, or is refused with a line; no input ends in anything else."""

import string
from typing import Any, Final

import msgspec
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.rules import jobset as rules
from muster.workloads.check import check
from muster.workloads.demand import demand
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import JobFile, Options
from muster.workloads.load import load
from tests.tiers import examples


def mostly(good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 19).flatmap(lambda die: bad if die == 19 else good)


type_names = mostly(
    st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True),
    st.text(string.ascii_letters + string.digits + "-_.", min_size=1, max_size=40),
)
counts = mostly(
    st.integers(1, 6) | st.none(), st.integers(-1, 0) | st.sampled_from([10**6, 10**12, "3", 2.5, True])
)
figures = mostly(st.integers(1, 64) | st.floats(0.001, 1000), st.floats() | st.integers() | st.just("1"))
resources = st.one_of(
    st.fixed_dictionaries({"ramRatio": figures}, optional={"cpus": figures, "shmSizeGB": figures}),
    st.fixed_dictionaries({"memory": figures}, optional={"cpus": figures}),
    mostly(st.none(), st.fixed_dictionaries({"memory": figures, "ramRatio": figures})),
)
types = st.fixed_dictionaries(
    {},
    optional={"count": counts, "completions": counts, "parallelisms": counts, "resources": resources},
)
manifests = st.fixed_dictionaries(
    {
        "operator": mostly(st.just("jobset"), st.just("kuberay")),
        "command": st.text(min_size=1, max_size=20),
        "types": st.dictionaries(type_names, st.none() | types, min_size=1, max_size=4),
    },
    optional={
        "timeout": mostly(st.sampled_from(["6h", 5]), st.text(max_size=5)),
        "restartPolicy": st.fixed_dictionaries({"backoffLimit": mostly(st.integers(0, 9), st.just(-1))}),
        "env": st.dictionaries(
            mostly(st.from_regex("[A-Z]{1,5}", fullmatch=True), st.text()), st.text(max_size=5), max_size=2
        ),
        "scheduling": st.fixed_dictionaries(
            {"mode": mostly(st.sampled_from(["gang", "independent"]), st.text())}
        ),
    },
)
modes = st.sampled_from([None, "gang", "independent"])


@settings(max_examples=examples(80), deadline=None)
@given(spec=manifests, mode=modes)
def test_a_manifest_compiles_to_its_counts_or_is_refused_with_a_line(spec: Object, mode: Any) -> None:
    job = loaded(yaml.safe_dump({"spec": spec}, sort_keys=False), mode)
    if isinstance(job, JobFileError):
        assert all(f.line > 0 and f.message for f in job.findings)
        return
    wanted = {name: type_ or {} for name, type_ in spec["types"].items()}

    def number(type_: Object, field: str) -> int:
        value = type_.get(field)
        return 1 if value is None else int(value)

    pods = {n: number(t, "count") * number(t, "completions") for n, t in wanted.items()}
    assert {s.name: s.pods for s in demand(job)} == pods
    assert len(hosts(job.objects[0])) == len(set(hosts(job.objects[0]))) == sum(pods.values())
    completed = rules.default(msgspec.json.decode(msgspec.json.encode(job.objects[0])))
    assert rules.validate(completed, None) == []
    check(job)


@settings(max_examples=examples(50), deadline=None)
@given(spec=manifests, mode=modes)
def test_the_same_file_gives_the_same_objects(spec: Object, mode: Any) -> None:
    text = yaml.safe_dump({"spec": spec})
    first, second = loaded(text, mode), loaded(text, mode)
    if isinstance(first, JobFileError) or isinstance(second, JobFileError):
        assert str(first) == str(second)
    else:
        assert (first.objects, first.notes) == (second.objects, second.notes)


#: Parts of valid objects, put together in every wrong way.
WORDS = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "generateName",
    "labels",
    "annotations",
    "spec",
    "template",
    "replicatedJobs",
    "replicas",
    "parallelism",
    "completions",
    "containers",
    "command",
    "volumes",
    "env",
    "persistentVolumeClaim",
    "claimName",
    "resources",
    "requests",
    "nvidia.com/gpu",
    "suspend",
    "failurePolicy",
    "rules",
    "minMember",
    "items",
    "nodeSelector",
    "affinity",
    "operator",
    "types",
    "count",
]
VALUES = [
    "v1",
    "batch/v1",
    "jobset.x-k8s.io/v1alpha2",
    "Pod",
    "Job",
    "JobSet",
    "List",
    "a",
    "w",
    "jobset",
    "1Gi",
    "",
]
junk: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(VALUES) | st.integers(-2, 10) | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


def pod_spec(value: Any) -> Object:  # Any: junk
    return {"containers": [{"name": "c", "command": ["a"]}], "restartPolicy": "Never", **_fields(value)}


def _fields(value: Any) -> Object:  # Any: junk
    return value if isinstance(value, dict) else {}


@st.composite
def broken(draw: st.DrawFn) -> Object:
    """A valid Job, JobSet, Pod or PodGroup with junk somewhere in it."""
    pod: Object = {"metadata": draw(junk) or {}, "spec": pod_spec(draw(junk))}
    job: Object = {"template": pod, **_fields(draw(junk))}
    kind = draw(st.sampled_from(["Pod", "Job", "JobSet", "PodGroup", "ConfigMap"]))
    metadata = {"name": "a", **_fields(draw(st.none() | junk))}
    match kind:
        case "Pod":
            return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": pod["spec"]}
        case "Job":
            return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": job}
        case "JobSet":
            replicated = {"name": "w", "template": {"spec": job}, **_fields(draw(junk))}
            spec = {"replicatedJobs": [replicated], **_fields(draw(junk))}
            version = "jobset.x-k8s.io/v1alpha2"
            return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        case "PodGroup":
            version = "scheduling.x-k8s.io/v1alpha1"
            return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": draw(junk)}
        case _:
            return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": draw(junk)}


A_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "c", "command": ["a"]}], "restartPolicy": "Never"},
}


@settings(max_examples=examples(250), deadline=None)
@given(documents=st.lists(junk | broken(), min_size=1, max_size=2), mode=modes, local=st.booleans())
@example(
    [
        A_POD,
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "a"},
            "spec": {"replicatedJobs": "v1"},
        },
    ],
    None,
    False,
)
def test_no_input_ends_in_anything_but_a_job_file_or_its_error(
    documents: list[Any], mode: Any, local: bool
) -> None:
    job = loaded(yaml.safe_dump_all(documents), mode, local=local)
    if isinstance(job, JobFileError):
        assert job.findings
    else:
        check(job)
        demand(job)


@settings(max_examples=examples(50), deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_no_text_ends_in_anything_but_an_error(text: str | bytes) -> None:
    job = loaded(text, None)
    if isinstance(job, JobFileError):
        assert str(job).startswith("f.yaml")


def loaded(text: str | bytes, mode: Any, *, local: bool = True) -> JobFile | JobFileError:
    try:
        return load("f.yaml", Options(mode=mode, local=local), text=text)
    except JobFileError as error:
        return error


def hosts(jobset: Object) -> list[str]:
    """Hosts of all pods, as JobSet and the Job controller name them."""
    read = msgspec.convert(jobset, JobSet)
    name = read.metadata.name
    return [
        f"{name}-{r.name}-{job}-{index}"
        for r in read.spec.replicated_jobs
        for job in range(r.replicas)
        for index in range(r.template["spec"]["completions"])
    ]

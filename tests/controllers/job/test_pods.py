import msgspec
import pytest

from muster.api.base import Object
from muster.api.batch_v1 import Job
from muster.controllers.job.pods import indexed_pods, plain_name, plain_pods
from tests.controllers.job.cluster import job_object

TEMPLATE: Object = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
    "spec": {
        "restartPolicy": "Never",
        "hostname": "ignored",
        "containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}],
        "initContainers": [{"name": "init", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]}],
    },
}


def job(**spec: object) -> Job:
    return msgspec.convert(job_object({"template": TEMPLATE, **spec}), Job)


def test_an_indexed_pod() -> None:
    pod = indexed_pods(job(completionMode="Indexed", backoffLimitPerIndex=3))(7, "", 2, 1)
    meta, spec = pod["metadata"], pod["spec"]
    stem, suffix = meta["name"].rsplit("-", 1)
    assert (stem, len(suffix)) == ("train-7", 5)
    assert spec["hostname"] == "train-7"
    assert meta["labels"] == {
        "app": "x",
        "batch.kubernetes.io/job-name": "train",
        "batch.kubernetes.io/controller-uid": "job-uid",
        "job-name": "train",
        "controller-uid": "job-uid",
        "batch.kubernetes.io/job-completion-index": "7",
    }
    assert meta["annotations"] == {
        "note": "y",
        "batch.kubernetes.io/job-completion-index": "7",
        "batch.kubernetes.io/job-index-failure-count": "2",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }
    assert meta["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert meta["ownerReferences"][0]["uid"] == "job-uid"
    assert spec["containers"][0]["env"] == [
        {"name": "A", "value": "1"},
        {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {
                "fieldRef": {
                    "apiVersion": "v1",
                    "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']",
                }
            },
        },
    ]
    assert spec["initContainers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]
    assert TEMPLATE["spec"]["containers"] == [{"name": "main", "env": [{"name": "A", "value": "1"}]}]


def test_names_are_the_same_each_time_and_differ_by_predecessor() -> None:
    make = indexed_pods(job(completionMode="Indexed"))
    names = [make(0, predecessor, 0, 0)["metadata"]["name"] for predecessor in ("", "", "pod-1", "pod-2")]
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert plain_pods(job())(3)["metadata"]["name"] == plain_name(job(), 3) != plain_name(job(), 4)


def test_plain_pods_have_no_index() -> None:
    pod = plain_pods(job())(0)
    assert pod["spec"]["hostname"] == "ignored"
    assert "batch.kubernetes.io/job-completion-index" not in pod["metadata"]["labels"]


def test_ten_thousand_names_do_not_collide() -> None:
    assert len({plain_name(job(), number) for number in range(10_000)}) == 10_000


@pytest.mark.parametrize("length", [50, 63, 253])
def test_long_names_are_cut(length: int) -> None:
    long = msgspec.convert(job_object({"template": TEMPLATE}, name="j" * length), Job)
    name = indexed_pods(long)(12, "", 0, 0)["metadata"]["name"]
    assert len(name) <= 63
    assert "-12-" in name

"""Views that follow changes are those that the same objects have when all are read at once."""

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import groups, kinds
from muster.api.base import AnyKind, Object, Resource
from muster.app.views import jobs, live, nodes
from muster.app.views.job import JobView
from muster.app.views.live import OF_JOBS, LiveJobs, LiveNodes
from muster.app.views.objects import Objects
from muster.core.world.failed_starts import FailedStarts

NAMES = st.sampled_from(["a", "b", "c"])
MAKERS: tuple[AnyKind, ...] = (kinds.JOBSET, kinds.JOB, kinds.VOLCANO_JOB, kinds.BATCH_JOB)


@st.composite
def changes(draw: st.DrawFn) -> tuple[AnyKind, str, Object | None]:
    """An object of few names, which may be controlled by any other and name any group; or it goes."""
    kind = draw(st.sampled_from(OF_JOBS))
    name, namespace = draw(NAMES), draw(st.sampled_from(["x", "y"]))
    if draw(st.integers(0, 3)) == 0:
        return kind, f"{namespace}/{name}", None
    meta: Object = {"name": name, "namespace": namespace, "uid": f"{kind.kind}-{kind.group}-{name}"}
    meta["creationTimestamp"] = f"2026-01-01T00:00:0{draw(st.integers(0, 9))}Z"
    by = draw(
        st.none() | st.tuples(st.sampled_from([*MAKERS, kinds.POD, kinds.POD_GROUP_X, kinds.CRON_JOB]), NAMES)
    )
    if by is not None:
        of, owner = by
        uid = f"{of.kind}-{of.group}-{owner}"
        named = {"apiVersion": of.api_version, "kind": of.kind, "name": owner, "uid": uid, "controller": True}
        meta["ownerReferences"] = [named]
    spec: Object = {}
    if kind is kinds.POD and draw(st.booleans()):
        meta["labels"] = {draw(st.sampled_from(LABELS)): draw(NAMES)}
    elif kind is kinds.GANG:
        of, source = draw(st.sampled_from([*MAKERS, *groups.OF_NAMED])), draw(NAMES)
        uid = draw(st.sampled_from(["", f"{of.kind}-{of.group}-{source}"]))
        spec["source"] = {"apiVersion": of.api_version, "kind": of.kind, "name": source, "uid": uid}
        others = draw(st.lists(st.sampled_from(["a", "x/b", "y/c"]), max_size=2))
        spec["podSets"] = [{"name": "s", "group": other} for other in others]
    elif kind is kinds.JOBSET:
        template = {"metadata": {"labels": {LABELS[0]: draw(NAMES)}}}
        spec["replicatedJobs"] = [{"name": "w", "template": {"spec": {"template": template}}}]
    return kind, f"{namespace}/{name}", {"metadata": meta, "spec": spec}


LABELS = ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"]


def of_all(there: dict[tuple[AnyKind, str], Resource]) -> list[JobView]:
    def of(kind: AnyKind) -> list[Any]:
        return [there[one] for one in sorted(there, key=lambda one: one[1]) if one[0] is kind]

    named = [(kind, group) for kind in groups.OF_NAMED for group in of(kind)]
    return jobs.views(
        Objects(
            of(kinds.JOBSET),
            of(kinds.JOB),
            named,
            of(kinds.POD),
            of(kinds.GANG),
            of(kinds.BATCH_JOB),
            of(kinds.VOLCANO_JOB),
        )
    )


@given(st.lists(changes(), max_size=25), st.integers(1, 5))
def test_jobs_that_follow_changes_are_those_of_all_objects(
    made: list[tuple[AnyKind, str, Object | None]], every: int
) -> None:
    followed, there = LiveJobs(), dict[tuple[AnyKind, str], Resource]()
    for number, (kind, key, obj) in enumerate(made):
        new = msgspec.convert(obj, kind.type) if obj is not None else None
        followed.change(kind, key, new)
        if new is not None:
            there[kind, key] = new
        else:
            there.pop((kind, key), None)
        if number % every == 0:
            followed.views()

    def order(view: JobView) -> Any:
        return jobs.by_age(view), view.kind.kind, view.kind.group

    assert sorted(followed.views(), key=order) == sorted(of_all(there), key=order)


def test_a_change_views_only_its_own_job_again(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = LiveJobs()
    for number in range(50):
        followed.change(kinds.POD, f"x/p{number}", pod(f"p{number}"))
    assert len(followed.views()) == 50
    viewed = []
    real = jobs.views

    def counting(objects: Objects) -> Any:
        viewed.append(objects)
        return real(objects)

    monkeypatch.setattr(jobs, "views", counting)
    followed.change(kinds.POD, "x/p7", pod("p7", phase="Running"))
    followed.change(kinds.POD, "x/p7", pod("p7", phase="Succeeded"))
    assert len(followed.views()) == 50
    assert [each.metadata.name for found in viewed for each in found.pods] == ["p7"]


def test_a_job_stays_when_its_last_pod_goes() -> None:
    followed = LiveJobs()
    job = msgspec.convert({"metadata": {"name": "j", "namespace": "x", "uid": "j"}}, kinds.JOB.type)
    by = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    meta = {"name": "p", "namespace": "x", "uid": "p", "ownerReferences": [by]}
    followed.change(kinds.JOB, "x/j", job)
    followed.change(kinds.POD, "x/p", msgspec.convert({"metadata": meta}, kinds.POD.type))
    assert [len(view.pods) for view in followed.views()] == [1]
    followed.change(kinds.POD, "x/p", None)
    assert [(view.name, view.pods) for view in followed.views()] == [("j", ())]


def test_a_job_that_cannot_be_read_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = jobs.views

    def broken(objects: Objects) -> Any:
        if objects.pods[0].metadata.name == "bad":
            raise ValueError("no")
        return real(objects)

    monkeypatch.setattr(jobs, "views", broken)
    followed = LiveJobs()
    for name in ("bad", "good"):
        followed.change(kinds.POD, f"x/{name}", pod(name))
    with caplog.at_level(logging.ERROR):
        assert [view.name for view in followed.views()] == ["good"]
    assert "x/bad cannot be read" in caplog.text


def test_pods_are_of_the_job_that_has_made_them() -> None:
    """Also where objects that name each other make several jobs, or another namespace's pod names a job."""
    followed = LiveJobs()

    def put(kind: AnyKind, namespace: str, name: str, obj: Object, **meta: Any) -> None:
        meta |= {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        followed.change(kind, f"{namespace}/{name}", msgspec.convert({**obj, "metadata": meta}, kind.type))

    named = {"scheduling.x-k8s.io/pod-group": "g"}
    put(kinds.POD_GROUP_X, "x", "g", {"spec": {"minMember": 2}})
    for job in "ba":
        by = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
        put(kinds.JOB, "x", job, {})
        put(kinds.POD, "x", f"p{job}", {}, labels=named, ownerReferences=[by])
        put(kinds.POD, "y", f"foreign{job}", {}, ownerReferences=[by])
    put(kinds.POD, "x", "bare", {}, labels=named)
    assert {view.name for view in followed.views()} == {"a", "b", "g"}
    pods = "x/pa", "x/pb", "x/bare", "y/foreigna", "y/foreignb", "x/none"
    jobs_of = [view.name if (view := followed.of_pod(pod)) is not None else None for pod in pods]
    assert jobs_of == ["a", "b", "g", None, None, None]


def pod(name: str, node: str = "", phase: str = "Pending") -> Any:
    asked = {"requests": {"cpu": "1"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": asked}]}
    meta = {"name": name, "namespace": "x", "uid": name}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, kinds.POD.type)


PODS = st.tuples(NAMES, st.sampled_from(["", "n", "m"]), st.sampled_from(["Running", "Failed"]))


@given(st.lists(PODS | NAMES | st.sampled_from(["n", "m", "-n", "-m"]), max_size=20))
def test_nodes_that_follow_changes_are_those_of_all_objects(made: list[Any]) -> None:
    followed, pods, there = LiveNodes(), dict[str, Any](), dict[str, Any]()
    for one in made:
        match one:
            case (name, node, phase):
                new = pod(name, node, phase)
                followed.pod(name, pods.get(name), new)
                pods[name] = new
            case "a" | "b" | "c":
                followed.pod(one, pods.pop(one, None), None)
            case "n" | "m":
                there[one] = msgspec.convert({"metadata": {"name": one}}, kinds.NODE.type)
                followed.node(one, there[one])
            case _:
                there.pop(one[1:], None)
                followed.node(one[1:], None)
        memory = FailedStarts()
        assert followed.views(memory) == nodes.views(there.values(), pods.values(), memory)
    assert {name for node in ("n", "m") for name in followed.on(node)} == {
        name for name, each in pods.items() if each.spec.node_name and not each.terminal
    }


def test_every_kind_of_a_job_has_a_place() -> None:
    assert set(live._RANK) >= {*MAKERS, kinds.POD, kinds.GANG, *groups.OF_NAMED}

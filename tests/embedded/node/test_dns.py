"""Which pod has which name, by the hosts file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api.core_v1 import Pod, Service
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JobSet
from muster.embedded.node.dns import Names
from tests.embedded.node.test_hosts import Time

START = datetime(2026, 3, 1, tzinfo=UTC)


class Told:
    """Names that are told of objects, and what the pods of `default` see of them."""

    def __init__(self, directory: Path) -> None:
        self.names = Names(directory, Time())
        self.file = self.names.file(pod("0"))

    def of(self, name: str, viewer: Pod | None = None) -> list[str]:
        """The addresses of a name in the file of `viewer`, which has no aliases if it is not given."""
        file = self.file if viewer is None else self.names.file(viewer)
        lines = [line.partition("#")[0].split() for line in file.read_text().splitlines()]
        return [words[0] for words in lines if name in words[1:]]

    def pods(self, *pods: Pod) -> None:
        for pod in pods:
            self.names.pod_changed(None, pod)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "hosts")


def pod(
    uid: str, host: str = "h", sub: str = "s", *, age: float = 0, ready: bool = False, **more: Any
) -> Pod:
    """`uid` is the last number of its address, too."""
    meta: dict[str, Any] = {"name": f"p{uid}", "namespace": "default", "uid": uid}
    meta["creationTimestamp"] = START - timedelta(seconds=age)
    meta["labels"] = more.get("labels", {})
    if more.get("leaving"):
        meta["deletionTimestamp"] = START
    status = {"podIP": more.get("ip", f"127.1.0.{uid}"), "phase": more.get("phase", "Running")}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    spec = {"hostname": host, "subdomain": sub, "containers": [], "hostAliases": more.get("aliases", [])}
    return msgspec.convert(
        {"metadata": meta, "spec": spec, "status": {**status, "conditions": [condition]}}, Pod
    )


def service(name: str = "web", *, early: bool = False, **selector: str) -> Service:
    spec = {"selector": selector, "publishNotReadyAddresses": early}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Service)


def test_a_replacement_has_the_name_of_the_pod_that_is_slow_to_end(told: Told) -> None:
    old, new = pod("1", age=60), pod("2")
    told.pods(old, pod("1", age=60, leaving=True))
    assert told.of("h.s") == ["127.1.0.1"], "as long as there is no other"
    told.pods(new)
    for name in ("h", "h.s", "h.s.default.svc.cluster.local"):
        assert told.of(name) == ["127.1.0.2"]
    told.names.pod_changed(old, None)
    assert told.of("h.s") == ["127.1.0.2"]


def test_the_order_in_which_pods_are_reported_does_not_matter(told: Told) -> None:
    told.pods(pod("2"), pod("1", age=60, leaving=True))
    assert told.of("h.s") == told.of("h") == ["127.1.0.2"]


def test_if_the_replacement_goes_first_the_name_leads_to_the_old_pod_again(told: Told) -> None:
    told.pods(pod("1", age=60, leaving=True), pod("2"))
    told.names.pod_changed(pod("2"), None)
    assert told.of("h.s") == ["127.1.0.1"]


def test_a_bare_host_name_of_two_subdomains_stays_with_the_first(told: Told) -> None:
    told.pods(pod("1", sub="a", age=60), pod("2", sub="b"))
    assert (told.of("h"), told.of("h.a"), told.of("h.b")) == (["127.1.0.1"], ["127.1.0.1"], ["127.1.0.2"])
    told.names.pod_changed(pod("1", sub="a"), None)
    assert (told.of("h"), told.of("h.a")) == (["127.1.0.2"], [])


def test_a_pod_without_an_address_has_no_name(told: Told) -> None:
    told.pods(pod("1", ip=""))
    assert told.of("h.s") == []
    told.names.pod_changed(pod("1", ip=""), pod("1"))
    assert told.of("h.s") == ["127.1.0.1"]


def test_pods_of_a_jobset_that_has_finished_have_none(told: Told) -> None:
    jobset = msgspec.convert(
        {"metadata": {"name": "js", "namespace": "default"}, "status": {"terminalState": "Failed"}}, JobSet
    )
    told.names.service_changed(None, service("s", early=True, **{JOBSET_NAME: "js"}))
    told.pods(pod("1", labels={JOBSET_NAME: "js"}), pod("2", host="other"))
    assert told.of("s") == ["127.1.0.1"]
    told.names.jobset_changed(None, jobset)
    told.pods(pod("1", labels={JOBSET_NAME: "js"}, leaving=True), pod("3", labels={JOBSET_NAME: "js"}))
    assert (told.of("h.s"), told.of("s"), told.of("other.s")) == ([], [], ["127.1.0.2"])


@pytest.mark.parametrize("service_first", [True, False])
def test_a_services_name_leads_to_its_ready_pods(told: Told, service_first: bool) -> None:
    web = service(app="x")
    if service_first:
        told.names.service_changed(None, web)
    told.pods(
        pod("1", "a", labels={"app": "x", "b": "c"}, ready=True),
        pod("2", "b", labels={"app": "x"}),
        pod("3", "c", labels={"app": "y"}, ready=True),
        pod("4", "d", labels={"app": "x"}, ready=True),
    )
    if not service_first:
        told.names.service_changed(None, web)
    for name in ("web", "web.default", "web.default.svc", "web.default.svc.cluster.local"):
        assert told.of(name) == ["127.1.0.1", "127.1.0.4"]
    told.pods(pod("2", "b", labels={"app": "x"}, ready=True))
    told.pods(pod("1", "a", labels={"app": "y"}, ready=True))
    told.pods(pod("4", "d", labels={"app": "x"}, ready=True, leaving=True))
    assert told.of("web") == ["127.1.0.2"]
    told.names.pod_changed(pod("2", "b", labels={"app": "x"}), None)
    assert told.of("web") == []


def test_a_service_that_publishes_unready_addresses_lists_all_pods_that_have_not_ended(told: Told) -> None:
    labels = {"app": "x"}
    told.names.service_changed(None, service(early=True, app="x"))
    told.pods(pod("1", "a", labels=labels, leaving=True), pod("2", "b", labels=labels, phase="Pending"))
    assert told.of("web") == ["127.1.0.1", "127.1.0.2"]
    told.pods(pod("1", "a", labels=labels, phase="Failed"))
    assert told.of("web") == ["127.1.0.2"]
    assert told.of("a.s") == ["127.1.0.1"], "its own name stays"


def test_a_service_that_changes_or_goes(told: Told) -> None:
    told.pods(pod("1", "a", labels={"app": "x"}, ready=True), pod("2", "b", labels={"app": "y"}, ready=True))
    told.names.service_changed(None, service(app="x"))
    told.names.service_changed(service(app="x"), service(app="y"))
    assert told.of("web") == ["127.1.0.2"]
    told.names.service_changed(service(app="y"), service())
    assert told.of("web") == [], "without a selector its addresses are managed elsewhere"
    told.names.service_changed(service(), service(app="x"))
    told.names.service_changed(service(app="x"), None)
    assert told.of("web") == []


def test_a_muster_that_starts_again_keeps_what_is_still_so(tmp_path: Path) -> None:
    before = Told(tmp_path / "hosts")
    before.names.service_changed(None, service(early=True, app="x"))
    before.pods(pod("1", "a", labels={"app": "x"}), pod("2", "b", labels={"app": "x"}))
    before.names.close()
    after = Told(tmp_path / "hosts")
    after.names.service_changed(None, service(early=True, app="x"))
    after.pods(pod("2", "b", labels={"app": "x"}))
    after.names.settle()
    assert (after.of("web"), after.of("a.s"), after.of("b.s")) == (["127.1.0.2"], [], ["127.1.0.2"])
    after.names.close()


ALIASES = [{"ip": "10.1.2.3", "hostnames": ["nas.internal", "nas"]}, {"ip": "fd00::1", "hostnames": ["six"]}]


def test_pods_see_their_own_aliases_and_all_names(told: Told) -> None:
    """Those of pods and Services that were there before, and of those that come later."""
    told.names.service_changed(None, service(app="x"))
    told.pods(pod("1", "before", ready=True, labels={"app": "x"}))
    with_, without = pod("2", "with", aliases=ALIASES), pod("3", "without")
    told.pods(with_, without, pod("4", "after", ready=True, labels={"app": "x"}))
    assert [told.of(name, with_) for name in ("nas", "nas.internal", "six")] == [
        ["10.1.2.3"],
        ["10.1.2.3"],
        ["fd00::1"],
    ]
    assert told.of("nas", without) == []
    for name in ("before", "with", "without.s", "after", "web"):
        assert told.of(name, with_) == told.of(name, without) != []
    told.names.pod_changed(pod("1", "before"), None)
    assert told.of("before", with_) == told.of("before", without) == []
    assert len(told.of("web", with_)) == 1


def test_an_alias_comes_before_the_name_of_a_pod(told: Told) -> None:
    viewer = pod("2", aliases=[{"ip": "10.1.2.3", "hostnames": ["h.s"]}])
    told.pods(pod("1"), viewer)
    assert (told.of("h.s", viewer), told.of("h.s.default", viewer)) == (["10.1.2.3"], told.of("h.s.default"))


def test_pods_with_equal_aliases_share_a_file_that_goes_with_the_last(told: Told) -> None:
    pods = [pod(str(number), f"h{number}", aliases=ALIASES) for number in (1, 2)]
    told.pods(*pods, pod("3", aliases=[{"ip": "10.9.9.9", "hostnames": ["nas"]}]))
    file = told.names.file(pods[0])
    assert file == told.names.file(pods[1]) != told.names.file(pod("3"))
    told.names.pod_changed(pods[0], None)
    assert file.exists()
    told.names.pod_changed(pods[1], None)
    assert not file.exists()


def test_a_restart_keeps_the_file_that_running_pods_see(told: Told, tmp_path: Path) -> None:
    kept, gone = (
        pod("1", "a", aliases=ALIASES),
        pod("2", "b", aliases=[{"ip": "10.9.9.9", "hostnames": ["x"]}]),
    )
    told.pods(kept, gone)
    stale, before = told.names.file(gone), told.names.file(kept).stat()
    told.names.close()
    names = Names(tmp_path / "hosts", Time())
    names.pod_changed(None, kept)
    names.settle()
    after = names.file(kept).stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert not stale.exists()
    lines = [line.split() for line in names.file(kept).read_text().splitlines()]
    assert ["10.1.2.3", "nas.internal", "nas"] in lines
    assert ["fd00::1", "six"] in lines


def test_more_aliases_than_a_record_holds(told: Told) -> None:
    names = [f"{number}.{'x' * 60}.{'y' * 60}.{'z' * 60}.internal" for number in range(100)]
    viewer = pod("1", aliases=[{"ip": "10.1.2.3", "hostnames": names}])
    told.pods(viewer)
    assert all(told.of(name, viewer) == ["10.1.2.3"] for name in names)

"""What a real cluster has for BatchJobs."""

import asyncio
from typing import cast

import pytest
import yaml

from muster.api.base import AnyKind, Object
from muster.api.kinds import BATCH_JOB, CEDAR_POLICY, EMITTED, JOBSET, POD_GROUP_X
from muster.api.templates import pod_templates
from muster.app.wiring.batch_jobs import controllers
from muster.app.wiring.batch_site import LOOK, ClusterSite
from muster.app.wiring.compile_queue import AtOnce
from muster.app.wiring.settings import BatchJobs
from muster.controllers.batch_job import Observed
from muster.kube.errors import Unreachable
from muster.kube.http import HttpClient
from tests.controllers.memory import START, Memory
from tests.loop_clock import LoopClock
from tests.workloads.batch.jobs import small

pytestmark = pytest.mark.looptime
ASKED: tuple[AnyKind, ...] = (JOBSET, POD_GROUP_X, *EMITTED)
KINDS = {kind.kind: kind for kind in ASKED}
AUTO = BatchJobs()
S3: Object = {"type": "external-service", "params": {"endpoints": {"s3": "https://s3.example.com"}}}
DB: Object = {"type": "secret", "params": {"keys": ["user"]}}


class Server:
    """An API server that has these kinds, and is away `away` times."""

    def __init__(self, *names: str, away: int = 0) -> None:
        self.names, self.away = set(names), away

    async def served(self, group: str, version: str) -> frozenset[str]:
        if self.away:
            self.away -= 1
            raise Unreachable("gone fishing")
        found = (KINDS[name] for name in self.names)
        return frozenset(kind.plural for kind in found if (kind.group, kind.version) == (group, version))

    @property
    def client(self) -> HttpClient:
        return cast("HttpClient", self)  # of which the site asks nothing else


async def looked(
    server: Server, settings: BatchJobs = AUTO, schedulers: frozenset[str] | None = None
) -> ClusterSite:
    site = ClusterSite(settings, "muster-system", LoopClock(), AtOnce(), schedulers)
    await site.look(server.client)
    return site


ANYTHING = "permit (principal, action, resource);"
NAMES_A_SCHEDULER = 'action == Muster::Action::"UseScheduler"'


def compiled(site: ClusterSite, text: str, permits: str = ANYTHING) -> Observed:
    """What the controller of BatchJobs makes of a job under this policy."""
    memory = Memory(lambda: START)
    memory.create(BATCH_JOB, "ml", {"metadata": {"name": "job"}, "spec": yaml.safe_load(text)["spec"]})
    policy = {"policies": permits}
    memory.create(CEDAR_POLICY, "", {"metadata": {"name": "all"}, "spec": policy})
    controller = controllers(site.site)[0]
    caches = memory.caches([each.kind for each in controller.watches], controller.indexes)
    observed = controller.observe(caches, "ml/job")
    assert isinstance(observed, Observed)
    return observed


MESH = ("NetworkPolicy", "ServiceEntry", "AuthorizationPolicy")
ALL = ("JobSet", "ExternalSecret", "CiliumNetworkPolicy", "TracingPolicyNamespaced", "NetworkPolicy")


async def test_declarations_are_compiled_to_the_kinds_that_the_cluster_serves() -> None:
    for settings, names, kinds in (
        (AUTO, ALL, {"CiliumNetworkPolicy", "TracingPolicyNamespaced"}),
        (AUTO, ("JobSet", "NetworkPolicy"), {"NetworkPolicy"}),
        (BatchJobs(network="plain"), ALL, {"NetworkPolicy", "TracingPolicyNamespaced"}),
        (BatchJobs(network="none", programs="none"), ALL, set()),
        (BatchJobs(mesh="istio"), ("JobSet", *MESH), {"NetworkPolicy", "AuthorizationPolicy"}),
    ):
        made = compiled(await looked(Server(*names), settings), small()).compiled
        assert {each["kind"] for each in made.support} - {"ServiceAccount"} == kinds


@pytest.mark.parametrize(
    ("schedulers", "expected"),
    [
        (None, "muster"),
        (frozenset({"muster"}), "muster"),
        (frozenset({"batch", "muster"}), "muster"),
        (frozenset({"volcano", "batch"}), "batch"),
    ],
)
async def test_pods_name_the_scheduler_that_muster_is_there(
    schedulers: frozenset[str] | None, expected: str
) -> None:
    """No permit is needed for it."""
    site = await looked(Server(*ALL), AUTO, schedulers)
    permits = f"permit (principal, action, resource) unless {{ {NAMES_A_SCHEDULER} }};"
    observed = compiled(site, small(), permits)
    (made,) = observed.compiled.jobs
    named = {template["spec"]["schedulerName"] for _, template in pod_templates(made)}
    assert named == {expected}


@pytest.mark.parametrize(
    ("settings", "names", "text", "told"),
    [
        (AUTO, ("NetworkPolicy",), small(), "needs a JobSet (jobset.x-k8s.io/v1alpha2)"),
        (
            AUTO,
            ("JobSet", "NetworkPolicy"),
            small({"variables": {"A": "${resources.db.user}"}}, db=DB),
            "install the External Secrets Operator",
        ),
        (BatchJobs(programs="tetragon"), ("JobSet", "NetworkPolicy"), small(), "install Tetragon"),
        (BatchJobs(network="cilium"), ("JobSet",), small(), "install Cilium"),
        (BatchJobs(mesh="istio"), ("JobSet", "NetworkPolicy"), small(), "install Istio"),
        (AUTO, ("JobSet", "NetworkPolicy"), small(None, s3=S3), "Cilium"),
    ],
)
async def test_a_job_that_needs_what_the_cluster_lacks_says_what_to_install(
    settings: BatchJobs, names: tuple[str, ...], text: str, told: str
) -> None:
    found = compiled(await looked(Server(*names), settings), text).compiled
    assert (found.support, found.jobs) == ((), ())
    assert any(told in each.message for each in found.findings), found.findings


async def test_a_declaration_that_the_cluster_does_not_enforce_is_a_warning() -> None:
    bare = await looked(Server("JobSet"), BatchJobs(network="none"))
    messages = [each.message for each in compiled(bare, small()).compiled.warnings]
    assert [message.partition(":")[0] for message in messages] == [
        "programs are not restricted",
        "connections are not restricted",
    ]
    assert not compiled(await looked(Server(*ALL)), small()).compiled.warnings


async def test_a_server_that_is_away_is_asked_until_it_answers() -> None:
    site = await looked(Server(*ALL, away=3))
    assert not compiled(site, small()).compiled.findings


async def test_a_kind_that_is_installed_later_is_used_from_then_on() -> None:
    server = Server("NetworkPolicy")
    site = await looked(server)
    signals: list[object] = []
    site.changed.subscribe(signals.append)
    following = asyncio.create_task(site.run(server.client))
    await asyncio.sleep(2 * LOOK)
    assert compiled(site, small()).compiled.findings
    assert signals == []
    server.names.add("JobSet")
    await asyncio.sleep(2 * LOOK)
    assert not compiled(site, small()).compiled.findings
    assert signals == [None]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)

"""A real cluster as BatchJobs are compiled for it: which kinds of other projects its API server serves.

The settings say what enforces the declarations of a job; with `auto` it is what the cluster serves. A job
that needs a kind that the cluster lacks is not created, and its status says what to install.
"""

import asyncio
import logging
from typing import Final

from muster.api import groups, rates
from muster.api.base import AnyKind, Object
from muster.api.fields import Finding
from muster.api.kinds import EMITTED, JOBSET
from muster.app.wiring.batch_jobs import Site
from muster.app.wiring.compile_queue import Compiler
from muster.app.wiring.settings import BatchJobs
from muster.compiler import Facts
from muster.controllers.driver import Signal
from muster.kube.clock import Clock
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.kube.http import HttpClient
from muster.names import SCHEDULER

log = logging.getLogger(__name__)

#: Seconds between two queries of what the cluster serves, and between retries of a query.
LOOK: Final = 30.0
RETRY: Final = 2.0
_KINDS: Final[tuple[AnyKind, ...]] = (JOBSET, groups.CREATED.kind, *EMITTED)
_ASKED: Final = {(kind.api_version, kind.kind): kind for kind in _KINDS}
_CILIUM: Final = ("cilium.io/v2", "CiliumNetworkPolicy")
_TETRAGON: Final = ("cilium.io/v1alpha1", "TracingPolicyNamespaced")
#: What installs a kind, or a version of a group.
_INSTALLS: Final = {
    groups.NATIVE.kind.api_version: "Kubernetes 1.37 with the feature gate GenericWorkload",
    "JobSet": "JobSet",
    "Job": "Volcano",
    groups.CREATED.kind.kind: "the definition of PodGroups",
    "ExternalSecret": "the External Secrets Operator",
    "CiliumNetworkPolicy": "Cilium",
    "TracingPolicyNamespaced": "Tetragon",
    "ServiceEntry": "Istio",
    "AuthorizationPolicy": "Istio",
}


class ClusterSite:
    """Makes a `Site` of a real cluster, and keeps it up to date."""

    def __init__(
        self,
        settings: BatchJobs,
        namespace: str,
        clock: Clock,
        compiler: Compiler,
        schedulers: frozenset[str] | None = None,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._scheduler = SCHEDULER if SCHEDULER in (schedulers or {SCHEDULER}) else min(schedulers or ())
        self._served: frozenset[tuple[str, str]] = frozenset()
        self.changed = Signal()
        from muster.app.wiring.image_trust import ImageTrust  # its cryptography takes 0.1 s to load

        self._trust = ImageTrust(settings, namespace, clock, self.changed)
        self.site = Site(
            facts=self._facts,
            now=clock.now,
            strict=True,
            target=settings.target,
            priced=f"{namespace}/{rates.NAME}",
            lacks=self._lacks,
            warnings=self._warnings,
            trust=self._trust,
            schedulers=schedulers,
            lattice_jobs=settings.lattice_jobs,
            compiler=compiler,
            changed=self.changed,
        )
        self._known = self._derived()

    async def look(self, client: HttpClient) -> None:
        """Asks the API server what it serves, until it answers."""
        while True:
            try:
                await self._ask(client)
                return
            except (ApiError, Unanswered, Unreachable) as error:
                log.warning("the cluster does not say which kinds it serves: %s", error)
                await self._clock.sleep(RETRY)

    async def run(self, client: HttpClient) -> None:
        """Repeats `look` every `LOOK` seconds, looks images up and compiles, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.site.compiler.run())
            group.create_task(self._trust.run(client))
            while True:
                await self._clock.sleep(LOOK)
                await self.look(client)

    async def _ask(self, client: HttpClient) -> None:
        versions = sorted({(kind.group, kind.version) for kind in _ASKED.values()})
        found = await asyncio.gather(*(client.served(*version) for version in versions))
        served = {
            (*version, plural) for version, plurals in zip(versions, found, strict=True) for plural in plurals
        }
        now = frozenset(
            name for name, kind in _ASKED.items() if (kind.group, kind.version, kind.plural) in served
        )
        if now != self._served:
            self._served = now
            self._known = self._derived()
            self.changed.send()

    def _derived(self) -> Facts:
        network, programs = self._settings.network, self._settings.programs
        if network == "auto":
            network = "cilium" if _CILIUM in self._served else "plain"
        if programs == "auto":
            programs = "tetragon" if _TETRAGON in self._served else "none"
        return Facts(
            network=network,
            tetragon=programs == "tetragon",
            istio=self._settings.mesh == "istio",
            trust_domain=self._settings.trust_domain,
            scheduler=self._scheduler,
        )

    def _facts(self) -> Facts:
        return self._known

    def _lacks(self, made: Object) -> str:
        name = (made["apiVersion"], made["kind"])
        if name not in _ASKED or name in self._served:
            return ""
        version, kind = name
        installs = _INSTALLS.get(version) or _INSTALLS.get(kind, version)
        return f"the job needs a {kind} ({version}), which this cluster lacks; install {installs}"

    def _warnings(self) -> list[Finding]:
        told: list[Finding] = []
        if not self._known.tetragon:
            told.append(Finding((), "programs are not restricted: muster finds no Tetragon in this cluster"))
        if self._known.network == "none":
            told.append(Finding((), "connections are not restricted: batchJobs.network is none"))
        return told

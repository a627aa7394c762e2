"""What jobs have used, from records that survive them: the runs of pods, and the last states of jobs.

The embedded cluster keeps both (`muster.embedded.storage`), so its account also has jobs that were deleted or
pruned. Of a real cluster only the pods and jobs that exist are known, and its Preemptions.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.api import kinds, rates
from muster.api.rates import Rates
from muster.api.times import seconds
from muster.app.records import past
from muster.app.views import jobs
from muster.app.views.job import JobView
from muster.app.views.objects import fetch
from muster.app.views.usage import Owner, Usage, Use, Waited, added_up
from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.storage.history import History
from muster.embedded.storage.store import Store
from muster.kube.client import Client
from muster.kube.errors import Forbidden, NotFound
from muster.names import NAMESPACE, SUBMITTED_FROM
from muster.workloads.jobfile import Source
from muster.workloads.pod_run import PodRun, job_of, run_of


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of the time that pods held."""

    uses: tuple[Use, ...]
    waits: tuple[Waited, ...]
    rates: Rates

    def of(self, uid: str) -> Usage:
        """What the job with this uid has used and waited."""
        uses = [each for each in self.uses if each.owner.uid == uid]
        waits = [each for each in self.waits if each.owner.uid == uid]
        return next(iter(added_up((), uses, waits, self.rates, ())), Usage())


async def account(
    client: Client, target: Target, now: float, only: Iterable[JobView] | None = None
) -> Account:
    """The account of all jobs in the target's scope, or of `only` these. `now`: in seconds since 1970."""
    prices = await rates_of(client)
    existing = jobs.views(await fetch(client, target.scope))
    known = [*past.deleted(target, target.scope, judge=False), *existing]
    if target.embedded:
        runs = _history(target.scope)
    else:
        runs = [run_of(pod) for view in existing for pod in view.pods if pod.metadata.creation_timestamp]
    wanted = None if only is None else {view.resource.metadata.uid for view in only}
    found = [
        (view, mine)
        for view, mine in _by_job(runs, known)
        if wanted is None or (view is not None and view.resource.metadata.uid in wanted)
    ]
    return _account(found, prices, now)


def used(view: JobView, runs: Iterable[PodRun], prices: Rates, now: float) -> Usage:
    """What one job has used, of which these are the runs, as `account` would say."""
    return _account([(view, [*runs])], prices, now).of(view.resource.metadata.uid)


def _account(jobs: Iterable[tuple[JobView | None, list[PodRun]]], prices: Rates, now: float) -> Account:
    uses, waits = list[Use](), list[Waited]()
    for view, mine in jobs:
        owner = _owner(view, mine)
        uses += [use for run in mine if (use := _use(owner, run, now)) is not None]
        if (wait := _wait(owner, view, mine, now)) is not None:
            waits.append(wait)
    return Account(tuple(uses), tuple(waits), prices)


def _by_job(runs: Iterable[PodRun], known: Iterable[JobView]) -> list[tuple[JobView | None, list[PodRun]]]:
    """Each job with its runs. One of a name that several jobs had is of the last that was made before it."""
    named: dict[tuple[str, str], list[tuple[JobView | None, list[PodRun]]]] = {}
    for view in sorted(known, key=jobs.by_age):
        named.setdefault((view.namespace, view.name), []).append((view, []))
    for run in runs:
        of = named.setdefault((run.namespace, job_of(run)), [])
        before = [each for each in of if each[0] is not None and seconds(each[0].created) <= run.created]
        forgotten = next((each for each in of if each[0] is None), None)
        if before:
            before[-1][1].append(run)
        elif forgotten is not None:
            forgotten[1].append(run)
        else:
            of.append((None, [run]))
    return [each for of in named.values() for each in of]


def _owner(view: JobView | None, runs: list[PodRun]) -> Owner:
    if view is None:
        return Owner("", runs[0].namespace, "", job_of(runs[0]))
    source = Source.read(view.resource.metadata.annotations.get(SUBMITTED_FROM))
    return Owner(
        view.queue,
        view.namespace,
        source.by if source is not None else "",
        view.name,
        view.resource.metadata.uid,
    )


def _use(owner: Owner, run: PodRun, now: float) -> Use | None:
    begin = run.bound if run.bound is not None else run.started
    if begin is None:
        return None
    return Use(owner, begin, run.ended or now, run.gpus, run.cpus, run.memory, run.product)


def _wait(owner: Owner, view: JobView | None, runs: list[PodRun], now: float) -> Waited | None:
    """The wait for the first pod; of a job that ended without one, until its end."""
    created = (
        seconds(view.created)
        if view is not None and view.created
        else min((run.created for run in runs), default=None)
    )
    if created is None or (view is not None and view.kind is kinds.BATCH_JOB):
        return None
    begins = [begin for run in runs if (begin := run.bound if run.bound is not None else run.started)]
    if begins:
        until = min(begins)
    elif view is not None and view.state.finished:
        until = seconds(view.finished) if view.finished else created
    else:
        until = now
    return Waited(owner, created, max(0.0, until - created))


def _history(namespace: str) -> list[PodRun]:
    path = StateDirectory.of_user().store
    if not path.exists():
        return []
    store = Store.open_read_only(path)
    try:
        return History(store).runs(namespace=namespace)
    finally:
        store.close()


async def rates_of(client: Client) -> Rates:
    """The prices that the cluster's administrator has written; none if the caller may not read them."""
    try:
        return rates.read(await client.get(kinds.CONFIG_MAP, NAMESPACE, rates.NAME))
    except (NotFound, Forbidden):
        return Rates()

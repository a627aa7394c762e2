"""Events on groups: one for each lasting change of a gang, for `kubectl describe` and `kubectl get events`.

The changes are those that the scheduler records (`journal.Recorder`). A state that lasts less than `SETTLE`
is not reported. If an Event would repeat an earlier one (the same object, type and reason), the count of the
earlier one is raised instead. At most `RATE` Events are written a second; if there are more changes, only the
latest one of each gang is reported. That a gang now waits for something else is told within the budget of all
refreshes (`runtime.budget`). Nothing depends on an Event: if the server refuses one, that is only logged.

What muster does not obey of a gang's objects (`Group.warnings`: marks of other schedulers, for example) is
reported once, before the gang has a node, within the same budget. It is reported on the controller of a pod
without a group, so a Job of many pods has one such Event. Its name follows from its text, so a restarted
scheduler cannot repeat it.
"""

import logging
from collections import OrderedDict
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Final, Literal, Protocol

from muster.api import kinds
from muster.api.base import Object, OwnerReference, controller_of, involved
from muster.api.muster_v1alpha1 import Source
from muster.core.words.decisions import Decision, Evict, Wait
from muster.core.words.events import CommitFailed, Event, GangSubmitted
from muster.core.words.gang import Code, GangId
from muster.effects import events
from muster.journal import Mark
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import AlreadyExists, ApiError, NotFound, Unanswered, Unreachable
from muster.names import SCHEDULER
from muster.runtime.budget import WriteBudget, Writer
from muster.runtime.starts import Decisions, Outcome, Start
from muster.translate.disclosure import Disclosure
from muster.translate.group import Group

log = logging.getLogger(__name__)

#: Seconds that a state must last to be reported.
SETTLE: Final = 2.0
#: Events written per second.
RATE: Final = 20
#: Seconds after the last Event of a kind in which the same is counted there, not written as another.
SERIES: Final = 600.0
#: Events that are remembered for that, and changes that wait to be reported.
MOST: Final = 4096
#: Reasons that the user or an administrator has to do something about.
_WARNINGS: Final = frozenset({Code.INVALID, Code.NOTHING_MATCHES, Code.COMMIT_FAILED, Code.QUEUE_CLOSED})


#: The reason of what is not obeyed.
NOT_OBEYED: Final = "NotObeyed"


class Observed(Protocol):
    @property
    def groups(self) -> dict[GangId, Group]: ...


class About(Enum):
    """Changes that are reported beside each other; of two of one sort the later counts."""

    STATE = auto()
    EVICTION = auto()
    MARKS = auto()


@dataclass(frozen=True, slots=True)
class Said:
    """What an Event says of a gang."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    #: whether it can wait: the gang waited before for something else, or its marks are not obeyed
    again: bool = False


@dataclass(slots=True)
class _Written:
    """An Event that exists."""

    name: str
    count: int
    last: float


class GroupEvents:
    """A recorder that writes Events; `run` writes them."""

    def __init__(
        self, observed: Observed, decisions: Decisions, names: Disclosure, budget: WriteBudget
    ) -> None:
        """`names`: which other gangs an Event may name."""
        self._observed, self._names, self._budget = observed, names, budget
        #: changes to be reported, and since when
        self._due: OrderedDict[tuple[GangId, About], tuple[float, Said]] = OrderedDict()
        self._written: OrderedDict[tuple[str, str, str], _Written] = OrderedDict()
        self._codes: dict[GangId, Code] = {}
        decisions.on_end.append(self._ended)

    def write(self, at: float, what: Event | Decision | Mark) -> None:
        match what:
            case Wait(gang, why):
                if self._codes.get(gang) is not why.code:
                    kind: Literal["Normal", "Warning"] = "Warning" if why.code in _WARNINGS else "Normal"
                    _, waits = self._due.get((gang, About.STATE), (at, None))
                    again = gang in self._codes if waits is None else waits.again
                    self._codes[gang] = why.code
                    self._say(at, gang, Said(kind, why.code.value, why.message, again))
                elif (gang, About.STATE) in self._due:  # not reported yet: with the latest numbers
                    since, said = self._due[gang, About.STATE]
                    self._due[gang, About.STATE] = since, replace(said, message=why.message)
            case Evict(victims, beneficiary):
                for victim in victims:
                    pods = f"{len(victim.pods)} surplus pods are" if victim.pods else "it is"
                    lost = f"; {victim.work_lost:.0f} resource-seconds are lost" if victim.work_lost else ""
                    how = "Reclaimed" if victim.reclaimed else "Preempted"
                    said = Said("Warning", how, f"{pods} evicted for {beneficiary}{lost}")
                    self._say(at, victim.gang, said, About.EVICTION)
            case CommitFailed(gang, message=message):
                self._codes.pop(gang, None)
                self._say(at, gang, Said("Warning", Code.COMMIT_FAILED.value, message))
            case GangSubmitted(gang):
                group = self._observed.groups.get(gang.id)
                if group is None or group.members.filled:
                    return
                told = [each for each in group.warnings if gang.gate is None or each != gang.gate.message]
                if told:
                    said = Said("Warning", NOT_OBEYED, "; ".join(told), again=True)
                    self._say(at, gang.id, said, About.MARKS)
            case _:
                pass

    async def run(self, client: Client, clock: Clock) -> None:
        """Writes what is to be reported, until cancelled."""
        while True:
            await clock.sleep(1.0)
            now = clock.now()
            for about, said in self.settled(now.timestamp()):
                await self._post(client, about, said, now)

    def settled(self, at: float) -> list[tuple[Object, Said]]:
        """Returns the changes to report now, and forgets them: each with the object that it is about."""
        due = self._due.items()
        ready = [key for key, (since, _) in due if since + SETTLE <= at or key[1] is About.EVICTION]
        ready.sort(key=lambda key: self._due[key][1].again)
        found = []
        for key in ready[:RATE]:
            if self._due[key][1].again and not self._budget.take(Writer.EVENTS, at):
                break
            _, said = self._due.pop(key)
            group = self._observed.groups.get(key[0])
            if group is not None and (about := _about(group, key[1])) is not None:
                told = self._names.text(said.message, group.namespaces)
                found.append((about, replace(said, message=told)))
        gone = [gang for gang in self._codes if gang not in self._observed.groups]
        for gang in gone:
            del self._codes[gang]
        return found

    def _ended(self, start: Start, at: float, outcome: Outcome) -> None:
        if outcome is not Outcome.BOUND:
            return
        self._codes.pop(start.gang, None)
        group = self._observed.groups.get(start.gang)
        if group is None or not group.source.kind:  # a pod without a group shows its node itself
            self._due.pop((start.gang, About.STATE), None)
            return
        waited = f" after it waited {start.waited:.0f} s" if start.waited else ""
        pods = f"{start.pods} pod{' is' if start.pods == 1 else 's are'}"
        nodes = f"{start.nodes} node{'' if start.nodes == 1 else 's'}"
        self._say(at, start.gang, Said("Normal", "Started", f"{pods} bound to {nodes}{waited}"))

    def _say(self, at: float, gang: GangId, said: Said, about: About = About.STATE) -> None:
        self._due.pop((gang, about), None)
        self._due[gang, about] = at, said
        if len(self._due) > MOST:
            self._due.popitem(last=False)

    async def _post(self, client: Client, about: Object, said: Said, now: datetime) -> None:
        once = said.reason == NOT_OBEYED
        key = (str(about["uid"]), said.type, said.message if once else said.reason)
        known = self._written.pop(key, None)
        try:
            if known is not None and once:
                self._written[key] = known
            elif known is not None and now.timestamp() <= known.last + SERIES:
                self._written[key] = await self._again(client, known, about, said, now)
            else:
                self._written[key] = await self._first(client, about, said, now)
        except (ApiError, Unanswered, Unreachable) as error:
            log.warning("event %s about %s %s: %s", said.reason, about["kind"], about["name"], error)
        if len(self._written) > MOST:
            self._written.popitem(last=False)

    async def _first(self, client: Client, about: Object, said: Said, now: datetime) -> _Written:
        once = said.reason == NOT_OBEYED
        identity = f"{about['uid']}/{said.type}/{said.reason}/{said.message if once else now.isoformat()}"
        body = events.first(about, said.type, said.reason, said.message, SCHEDULER, now, identity)
        body["source"] = {"component": SCHEDULER}
        with suppress(AlreadyExists) if once else nullcontext():
            await client.create(kinds.EVENT, about["namespace"], body)
        return _Written(body["metadata"]["name"], 1, now.timestamp())

    async def _again(
        self, client: Client, known: _Written, about: Object, said: Said, now: datetime
    ) -> _Written:
        body = events.latest(said.message, now, known.count + 1)
        try:
            await client.patch(kinds.EVENT, about["namespace"], known.name, body)
        except NotFound:  # the API server keeps Events for an hour
            return await self._first(client, about, said, now)
        return _Written(known.name, known.count + 1, now.timestamp())


def _about(group: Group, what: About) -> Object | None:
    """Returns a reference to the group object; without one to the pod of the gang whose name comes first.

    Marks are told of the controller of such a pod, if it has one: its template has them.
    """
    if group.source.uid:
        return _reference(group.source, group.namespace)
    pods = (member.pod for member in group.members.values())
    pod = min(pods, key=lambda pod: pod.metadata.name, default=None)
    if pod is None:
        return None
    owner = controller_of(pod) if what is About.MARKS else None
    return _reference(owner, group.namespace) if owner is not None else involved(pod, kinds.POD)


def _reference(to: Source | OwnerReference, namespace: str) -> Object:
    return {
        "apiVersion": to.api_version,
        "kind": to.kind,
        "namespace": namespace,
        "name": to.name,
        "uid": to.uid,
    }

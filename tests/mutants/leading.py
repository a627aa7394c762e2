"""Deliberate faults in what decides which replica leads, and who may write to what."""

from typing import Final

from tests.mutants.faults import Fault

_REFRESHES: Final = ("tests/runtime/test_refreshes.py",)
_TWO: Final = ("tests/runtime/test_two_musters.py",)
_ELECTION: Final = ("tests/runtime/test_election.py",)
_LEADING: Final = "leader"


def _fault(name: str, file: str, old: str, new: str, tests: tuple[str, ...]) -> Fault:
    return Fault(name, _LEADING, file, old, new, tests)


FAULTS: Final = (
    _fault(
        "the Lease does not have its holder's setting of bad nodes",
        "runtime/election.py",
        "notes = {**self._notes, PODS_SEEN",
        "notes = {PODS_SEEN",
        _ELECTION,
    ),
    _fault(
        "a setting of bad nodes in the Lease is taken out of its bounds",
        "translate/bad_nodes.py",
        "return BadNodes() if any(found.wrong()) else found",
        "return found",
        ("tests/translate/test_bad_nodes.py",),
    ),
    _fault(
        "a replica that cannot read a kind takes the Lease",
        "runtime/election.py",
        """        if missing:
            self._tell(f"this replica""",
        """        if False:
            self._tell(f"this replica""",
        _ELECTION,
    ),
    _fault(
        "a replica that cannot read a kind creates the Lease",
        "runtime/election.py",
        "        if missing := self._missing():",
        "        if missing := ():",
        _ELECTION,
    ),
    _fault(
        "a leader makes way although no replica has asked",
        "runtime/election.py",
        "if (successor := self._seen.metadata.annotations.get(SUCCESSOR)) and (missing",
        "if (successor := self._identity) and (missing",
        _ELECTION,
    ),
    _fault(
        "a replica that cannot read a kind asks for the Lease",
        "runtime/election.py",
        "                if not missing:",
        "                if True:",
        _ELECTION,
    ),
    _fault(
        "the Lease of any process is taken at once",
        "runtime/election.py",
        "        return bool(self._instance) and holder.startswith(self._instance)",
        "        return holder.startswith(self._instance)",
        _ELECTION,
    ),
    _fault(
        "any process of a container takes the Lease of any other",
        "app/wiring/daemon.py",
        'return f"{pod}_" if pod and os.getpid() == 1 else ""',
        'return f"{pod}_" if pod else ""',
        ("tests/app/wiring/test_daemon.py",),
    ),
    _fault(
        "the Lease is released before what leads has ended",
        "app/wiring/daemon.py",
        "            await asyncio.to_thread(self._leave.wait)",
        "            await asyncio.wait({holding})",
        ("tests/app/wiring/test_daemon.py",),
    ),
    _fault(
        "a server that is down counts as one that refuses",
        "kube/reflector.py",
        "                elif isinstance(error, REFUSALS):",
        "                else:",
        ("tests/kube/test_reflector.py",),
    ),
    _fault(
        "what admission refused is not retried when admission changes",
        "runtime/commit/refusals.py",
        "key: replace(refusal, times=min(refusal.times, 1), until=now)",
        "key: replace(refusal, until=now)",
        ("tests/runtime/test_refusals.py",),
    ),
    _fault(
        "what admission refused is retried whenever admission changes",
        "runtime/leader.py",
        "if self.mirror.readmitted and self._now() >= self._readmits_at:",
        "if self.mirror.readmitted:",
        ("tests/runtime/test_refusals.py",),
    ),
    _fault(
        "the status of a policy counts as a change of it",
        "runtime/watched.py",
        "old.metadata.generation != new.metadata.generation",
        "old is not new",
        ("tests/runtime/test_watched.py",),
    ),
    _fault(
        "each gang writes its reason again whenever its figures change",
        "runtime/commit/status.py",
        "    if refresh is not None and not context.view.refreshes:",
        "    if refresh is not None and False:",
        _REFRESHES,
    ),
    _fault(
        "a first reason waits for its turn",
        "runtime/commit/status.py",
        "    if record is None or record.status.reason is None:",
        "    if record is not None and record.status.reason is None:\n        return Refresh.FIGURES\n"
        "    if record is None or record.status.reason is None:",
        _REFRESHES,
    ),
    _fault(
        "figures come before reasons",
        "runtime/commit/refreshes.py",
        "waiting = next(each for each in mine.values() if each)",
        "waiting = next(each for each in reversed(mine.values()) if each)",
        _REFRESHES,
    ),
    _fault(
        "a namespace has all its turns before another has one",
        "runtime/commit/refreshes.py",
        "                self._waiting[namespace] = mine\n",
        "                self._waiting = {namespace: mine} | self._waiting\n",
        _REFRESHES,
    ),
    _fault(
        "the plans of another scheduler are undone",
        "runtime/recorded_plans.py",
        "return obj if not self.others(obj) else None",
        "return obj",
        _TWO,
    ),
    _fault(
        "a gang that another scheduler has recorded is written to",
        "runtime/commit/status.py",
        "    if view.unfenced is not None and view.unfenced.foreign:",
        "    if view.unfenced is not None and False:",
        _TWO,
    ),
    _fault(
        "a gang that another scheduler has recorded is fenced",
        "runtime/fencing.py",
        '        if observed.others(observed.find(GANG, f"{group.namespace}/{group.record}")):',
        "        if False:",
        _TWO,
    ),
    _fault(
        "a PodGroup of another scheduler is a gang",
        "translate/podgroup/reading.py",
        "        return self.group is None or others",
        "        return self.group is None",
        _TWO,
    ),
    _fault(
        "a kind that is shown again counts as refused",
        "kube/reflector.py",
        "        self._refused_since, self.refused_for = None, 0.0",
        "        self._refused_since = None",
        ("tests/kube/test_reflector.py",),
    ),
    _fault(
        "a replica is ready although a kind is refused",
        "app/wiring/probes.py",
        " or each.refused_for > REFUSED",
        "",
        ("tests/app/wiring/test_probes.py",),
    ),
    _fault(
        "a new leader decides plans before it knows which devices are selected",
        "runtime/leader.py",
        "        if not self._unanswered():",
        "        if True:",
        ("tests/runtime/test_device_claims.py",),
    ),
    _fault(
        "to a new leader the devices of a plan's claims are in use",
        "translate/devices/inventory.py",
        "(claim in self._ours and reserved <= self._spared)",
        "False",
        ("tests/runtime/test_device_claims.py",),
    ),
)

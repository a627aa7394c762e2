"""The examples of docs/concepts/queues.md, run as they are written there."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Evict
from muster.core.words.events import GangRemoved, GangSubmitted, PodsEnded, QueueChanged
from muster.core.words.gang import GangId, PodSet, Queue
from muster.names import GPU_SHARE
from tests.core.words import assigns, bind, gang, node, shape

PAGE = Path(__file__).parents[3] / "docs/concepts/queues.md"
SCENARIOS = re.findall(r"^```scenario\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
_GANG = re.compile(r"(\w+): (\w+) (?:(\d+)-)?(\d+)(?: x (\d+))?(?: priority (\d+))?(?: for (\d+)h)?")


class Play:
    def __init__(self) -> None:
        self.muster = Scheduler()
        self.now = 0.0
        self.begun: dict[str, int] = {}

    def run(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        getattr(self, verb)(rest)

    def nodes(self, text: str) -> None:
        count, each = map(int, text.split(" x "))
        for i in range(count):
            self.muster.apply(node(f"n{i}", gpu=each))

    def queues(self, text: str) -> None:
        for name, rules in (pair.split("=") for pair in text.split()):
            weight, _, kept = rules.partition(",")
            self.muster.apply(QueueChanged(Queue(name, weight=int(weight), reclaimable=not kept)))

    def submit(self, text: str) -> None:
        match = _GANG.fullmatch(text)
        assert match is not None, text
        queue, name, least, count, each, priority, hours = match.groups()
        minimum = int(least or count)
        pods = PodSet("main", shape(gpu=int(each or 1)), int(count), minimum)
        asked = gang(name, pods, minimum=minimum, submitted=self.now, priority=int(priority or 0))
        estimate = 3600.0 * int(hours) if hours else None
        self.muster.apply(GangSubmitted(replace(asked, queue=queue, estimate=estimate)))
        self.now += 1.0

    def decide(self) -> dict[str, int]:
        begun: dict[str, int] = {}
        for assign in assigns(self.muster.decide(self.now)):
            begun[assign.gang] = begun.get(assign.gang, 0) + len(assign.nodes)
            bind(self.muster, assign)
        return begun

    def starts(self, text: str) -> None:
        assert " ".join(f"{name}={pods}" for name, pods in sorted(self.decide().items())) == text

    def reclaims(self, text: str) -> None:
        """A gang, or its surplus, is ended for another, which has its places at once."""
        victim, _, beneficiary = text.partition(" for ")
        decisions = self.muster.decide(self.now)
        (evict,) = [decision for decision in decisions if isinstance(decision, Evict)]
        (ended,) = evict.victims
        assert ended.gang == victim
        for pod in sorted(ended.pods or self.muster.world.gangs[ended.gang].pods):
            self.muster.apply(PodsEnded((pod,), self.now))
        (assign,) = assigns(decisions)
        assert f"{assign.gang}={len(assign.nodes)}" == beneficiary
        bind(self.muster, assign)

    def waits(self, text: str) -> None:
        name, code = text.split()
        assert name not in self.decide()
        explanation = self.muster.world.gangs[GangId(name)].explanation
        assert explanation is not None
        assert explanation.code.value == code

    def expects(self, text: str) -> None:
        """Of a gang that was told why it waits: when it starts."""
        match = re.fullmatch(r"(\w+) in (\d+)h", text)
        assert match is not None, text
        explanation = self.muster.world.gangs[GangId(match[1])].explanation
        assert explanation is not None
        assert explanation.expected_start is not None
        assert explanation.expected_start.at == self.now + 3600.0 * int(match[2])

    def entitled(self, text: str) -> None:
        self.muster.settle()
        accounts = self.muster.world.queues.accounts
        said = dict(pair.split("=") for pair in text.split())
        assert {name: accounts[name].entitled[GPU_SHARE] for name in said} == {
            name: 1000 * int(gpus) for name, gpus in said.items()
        }

    def ends(self, name: str) -> None:
        for pod in list(self.muster.world.gangs[GangId(name)].pods):
            self.muster.apply(PodsEnded((pod,), self.now))
        self.muster.apply(GangRemoved(GangId(name)))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=range(len(SCENARIOS)))
def test_as_it_is_written(scenario: str) -> None:
    play = Play()
    for line in scenario.splitlines():
        play.run(line)


def test_there_are_examples() -> None:
    assert len(SCENARIOS) >= 8

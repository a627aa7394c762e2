"""`muster demo` fits the terminal, whatever its scenes show."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.api.fields import Finding, Severity
from muster.app.demo import deadlock, gates, recovery
from muster.app.views.job import State
from muster.app.views.logs import Line
from muster.app.wiring import embedded
from muster.cli import demo
from tests.app.objects import ran
from tests.cli.test_show import view

#: What is copied, and therefore never folded.
PERMIT = 'permit (\n  principal,\n  action,\n  resource == Muster::ExternalEndpoint::"s3.us-east-1:443"\n);'
RUNS = tuple(ran(f"p{index}", job_index=index, exit_code=137, phase="Failed") for index in range(3))
ALONE = deadlock.Outcome(RUNS, 0.0, 10.8, 82.4, 0.0, ())
TOGETHER = deadlock.Outcome(RUNS, 0.0, 7.3, 3.8, 36.6, ("red", "blue"))
DENIED = Finding(("spec", "image"), "image denied: no policy permits it", Severity.ERROR)
LINE = Line("workers-0-0", "reads s3://training-data")


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
async def test_no_line_is_wider_than_the_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    over = view(State.SUCCEEDED)

    async def play(client: object, *, gangs: bool, namespace: str) -> deadlock.Outcome:
        return TOGETHER if gangs else ALONE

    async def recover(client: object) -> recovery.Outcome:
        return recovery.Outcome(over, RUNS, 4242, ())

    async def secure(client: object) -> gates.Outcome:
        rounds = [gates.Round([DENIED] * 2, ["spec: {}"], [PERMIT] * 2), gates.Round([], [], [])]
        return gates.Outcome(rounds, {"JobSet": 1, "Namespace": 1, "ServiceAccount": 1}, over, (LINE,))

    @asynccontextmanager
    async def running(*_: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(client=None)

    for module, scene in ((deadlock, play), (recovery, recover), (gates, secure)):
        monkeypatch.setattr(module, "run", scene)
    monkeypatch.setattr(embedded, "running", running)
    monkeypatch.setenv("COLUMNS", str(columns))
    await demo._demo(tmp_path / "home")
    lines = capsys.readouterr().out.splitlines()
    wide = [line for line in lines if len(line) > columns]
    assert wide == [f"     {line}" for line in PERMIT.splitlines() if 5 + len(line) > columns]
    text = " ".join(" ".join(lines).split())
    for told in ("a stuck job gives up after 10 s.", "since there are no images here:"):
        assert told in text
    assert ("GPU-seconds held idle: 82.4 pod by pod, 3.8 as gangs" in text) is (columns == 40)

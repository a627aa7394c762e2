"""A progress bar for long work."""

from types import TracebackType
from typing import Final

from muster.cli.say import console, say

#: Cycles between two updates of the bar.
EVERY: Final = 200


class Progress:
    """A progress bar on a terminal's stderr; without a terminal it shows nothing."""

    def __init__(self, unit: str, total: int | None = None) -> None:
        self._unit, self._total = unit, total
        self._calls = self._done = 0

    def __enter__(self) -> "Progress":
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        out = console(err=True)
        self._bar = Bar(
            TextColumn(self._unit),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=out,
            transient=True,
            disable=not out.is_terminal,
        )
        self._task = self._bar.add_task(self._unit, total=self._total)
        try:
            self._bar.start()
        except KeyboardInterrupt:  # the cursor is already hidden
            self.__exit__(KeyboardInterrupt, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if kind is KeyboardInterrupt:
            of = f" of {self._total:,}" if self._total is not None else ""
            say(f"interrupted after {self._done:,}{of} {self._unit}", err=True)

    def step(self, done: int | None = None) -> None:
        """Counts one cycle; call it once per cycle. The bar is updated now and then."""
        self._calls += 1
        if self._calls % EVERY == 0:
            self._done = self._calls if done is None else done
            self._bar.update(self._task, completed=self._done)

"""The scheduler: applies events to its state, and decides for whole gangs."""

from dataclasses import dataclass

from muster.core.decisions import Decision
from muster.core.events import Event


@dataclass(frozen=True, slots=True)
class Config:
    #: seconds a vacated place of a standing gang stays held for its replacement
    hold: float = 300.0


class Scheduler:
    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()

    def apply(self, event: Event) -> None:
        raise NotImplementedError

    def decide(self, now: float) -> list[Decision]:
        raise NotImplementedError

"""Asks the user for consent, in a terminal."""

import signal
import sys

from muster.cli.say import say


def possible() -> bool:
    """Whether there is a user who can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """The answer to a question of yes or no; no unless it is yes."""
    say(f"{question} [y/N] ", err=True, flush=True)
    # an event loop's own handler would leave the answer awaited
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    finally:
        signal.signal(signal.SIGINT, before)

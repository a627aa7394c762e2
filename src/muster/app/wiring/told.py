"""What muster has told this user and does not say again with each job: a file in the state directory."""

from contextlib import suppress
from typing import Final

import msgspec

from muster.app.wiring.state_directory import NotPrivate, StateDirectory
from muster.embedded.credentials import write_private

#: Subjects that are remembered; the oldest are forgotten first.
MOST: Final = 500


def first_time(subject: str) -> bool:
    """Whether this has not been told before; from now on it has. Without a directory to write in, always."""
    with suppress(OSError, NotPrivate):
        home = StateDirectory.of_user()
        home.make()
        file = home.root / "told.json"
        told = list[str]()
        with suppress(FileNotFoundError, msgspec.DecodeError):
            told = msgspec.json.decode(file.read_bytes(), type=list[str])
        if subject in told:
            return False
        write_private(file, msgspec.json.encode([*told, subject][-MOST:]).decode())
    return True

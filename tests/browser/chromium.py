"""The browser of these tests: the system's Chromium."""

import shutil
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
#: It does nothing of its own on the network. In a container it has no sandbox to make.
FLAGS: Final = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP evil.example 127.0.0.1",
)


def chromium() -> str | None:
    """Its path; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)

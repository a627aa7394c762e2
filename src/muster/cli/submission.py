"""Where a job is submitted from: what it records of that, and where and from which files its pods run."""

import asyncio
import os
import pwd
import secrets
import shlex
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.cli.errors import BAD_INPUT, Failure
from muster.workloads.jobfile import LONGEST_COMMAND, Caller, Source

if TYPE_CHECKING:
    from muster.app.commands.follow import Followed
    from muster.app.wiring.sending import Address
    from muster.kube.client import Client


def where_from(file: str) -> Source:
    """Where the jobs of this file come from, if this person submits it here; "": those of a command."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user without a name
        user = str(os.getuid())
    path = file if file in ("", "-") else os.path.realpath(file)
    return Source(path.encode(errors="backslashreplace").decode(), f"{user}@{socket.gethostname()}")


def record(file: str, copy: str = "", command: str | None = None, directory: str = "") -> Source:
    """As `where_from`, with command line, directory and commit. `copy`: the copy of that directory.

    `command`: what submits it; None = this command line. `directory`: where its pods run; "" = here.
    """
    from muster.app.wiring.repository import state

    here = directory or os.getcwd()
    found = state(Path(here))
    return msgspec.structs.replace(
        where_from(file),
        command=(_command_line(sys.argv[1:]) if command is None else command)[:LONGEST_COMMAND],
        cwd=here.encode(errors="backslashreplace").decode(),
        commit=found.commit,
        dirty=found.dirty,
        copy=copy,
    )


def _command_line(words: Sequence[str]) -> str:
    """The command line of muster, without values of variables and `--notify`, which may be secret."""
    cut = words.index("--") if "--" in words else len(words)
    told = ["muster", *words]
    for number, word in enumerate(words[:cut]):
        if number and words[number - 1] in ("-e", "--env"):
            told[number + 1] = word.partition("=")[0]
        elif word.startswith("--env="):
            told[number + 1] = "=".join(word.split("=")[:2])
        elif number and words[number - 1] == "--notify":
            told[number + 1] = "..."
        elif word.startswith("--notify="):
            told[number + 1] = "--notify=..."
        elif word.startswith("-e") and not word.startswith("--"):
            told[number + 1] = word.partition("=")[0]
    return shlex.join(told).encode(errors="backslashreplace").decode()


def copied(target: Target) -> str:
    """Copies the current directory for `--copy`; returns where to. Raises Failure."""
    from muster.app.wiring import repository
    from muster.embedded import directories

    if not target.embedded:
        raise Failure("--copy is for the embedded cluster; on a real one an image has the files", BAD_INPUT)
    home = StateDirectory.of_user()
    home.make()
    to = directories.copies(home.root) / secrets.token_hex(8)
    try:
        repository.copy(Path.cwd(), to)
    except repository.TooLarge as error:
        raise Failure(str(error), BAD_INPUT) from None
    return str(to)


def told(notify: str, target: Target) -> "Address":
    """The address that `--notify` names. Raises Failure."""
    from muster.app.wiring import sending

    if not target.embedded:
        raise Failure(
            "--notify is for the embedded cluster; on a real one write: muster run … ; COMMAND, or have "
            "Prometheus alert by muster's metrics (docs/reference/daemons.md)",
            BAD_INPUT,
        )
    try:
        return sending.address(notify, os.getcwd(), os.environ)
    except ValueError as error:
        raise Failure(f"--notify: {error}", BAD_INPUT) from None


async def have_told(client: "Client", jobs: Iterable["Followed"], to: "Address | None") -> None:
    """Has the embedded cluster tell what happens to these jobs, which were submitted just now."""
    if to is None:
        return
    from muster.api.base import Resource
    from muster.app.wiring import notifying
    from muster.cli.say import say
    from muster.kube.errors import ApiError

    root = StateDirectory.of_user().root
    for job in jobs:
        try:
            there: Resource = await client.get(job.kind, job.namespace, job.name)
            await asyncio.to_thread(notifying.ask, root, there, job.kind.kind, to)
        except (ApiError, OSError) as error:
            say(f"note: {job.name} is submitted, but --notify has no effect: {error}", err=True)


def caller(directory: str = "") -> Caller:
    """The submitting shell. Pods have it as JSON, which can only say what is UTF-8."""
    environment, cwd = os.environ, directory or os.getcwd()
    if not _is_utf8(cwd):
        raise Failure(
            f"the name of the current directory is not UTF-8 ({os.fsencode(cwd)!r}), so no pod can start "
            "in it: run muster in another directory",
            BAD_INPUT,
        )
    path = filter(_is_utf8, environment.get("PATH", "").split(os.pathsep))
    home, lang = (value if _is_utf8(value := environment.get(name, "")) else "" for name in ("HOME", "LANG"))
    return Caller(cwd=cwd, path=os.pathsep.join(path), home=home, lang=lang)


def _is_utf8(text: str) -> bool:
    """Whether a name of the system, in which Python keeps other bytes as surrogates, is UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Isolates a container's process from the rest of the machine: by namespaces, or only by a session.

With namespaces a container has its own mount, UTS and PID namespace, and below root a user namespace
in which the caller keeps the caller's own user id: files it writes are the caller's. util-linux does the
work (`unshare`, `mount`, `setpriv`): no code of ours runs between fork and exec, and none stays in memory.

No setting tells whether a machine permits namespaces (AppArmor, seccomp, sysctls and container engines all
matter), so muster tries one container at the start. If that fails, containers are sessions of their own,
Python programs get the pod's names from a resolver shim (`muster.embedded.node.shim`), and
`Isolation.degradation` says what is missing and how to mend it.

The wrapper is a shell script that stays as the parent of the command:

1. It sets up the inside of the namespaces (hostname, hosts file, volumes); a failure is written to `started`.
2. It runs the command and writes its exit code to `exit`, so that a muster that was killed and restarted
   learns it.
3. It keeps the last output in a file if no muster runs to read it: the content of a FIFO is lost with the
   last process that holds it open. A running muster holds a lock, by which the wrapper knows.

With a PID namespace the wrapper is process 1 of it: when it ends, the kernel ends all others. Unlike in a
container engine the command itself is not process 1, so a signal that it does not handle ends it.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from muster.embedded.node import marks, mounts
from muster.embedded.node.mounts import Bind

#: The environment variable that forces one of the two ways: "none" or "namespaces".
VARIABLE: Final = "MUSTER_ISOLATION"
#: Exit code of a wrapper that could not set up the container; `started` then says why.
SETUP_FAILED: Final = 125
_TOOLS: Final = ("unshare", "mount", "hostname", "setpriv", "nsenter")
_TRIAL_SECONDS: Final = 10.0
#: The name of a wrapper's shell in its command line.
WRAPPER: Final = "muster-pod"
_SHELL: Final = "/bin/sh"
#: Where the wrapper finds its tools; the container's own PATH is for its command.
_SYSTEM_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"


class Setup(msgspec.Struct, frozen=True):
    """What a container sees. Without namespaces only the working directory takes effect."""

    hostname: str
    working_dir: str
    binds: Sequence[Bind] = ()
    #: directories of the caller, in which mount points are really created
    own: Sequence[str] = ()
    #: an empty directory
    stage: str = ""
    #: soft limit of file descriptors that a process may open: the limit of muster's caller
    open_files: int = 0
    #: the file mode creation mask of the command; the wrapper's own files are private
    umask: int = 0o022


class Files(msgspec.Struct, frozen=True):
    """The files by which a wrapper and muster communicate: one directory per start of a container."""

    directory: Path

    @property
    def started(self) -> Path:
        """Exists once the wrapper runs; says why the set-up failed, if it did."""
        return self.directory / "started"

    @property
    def ready(self) -> Path:
        """Exists once the set-up is done and the command is about to run."""
        return self.directory / "ready"

    @property
    def exit(self) -> Path:
        """The command's exit code, once it has ended."""
        return self.directory / "exit"

    @property
    def output(self) -> Path:
        """The FIFO that is the command's stdout and stderr."""
        return self.directory / marks.OUTPUT

    @property
    def message(self) -> Path:
        """The termination message that the command wrote."""
        return self.directory / "message"

    @property
    def rest(self) -> Path:
        """The output that was still in the FIFO when the command ended while no muster was running."""
        return self.directory / "rest"


@dataclass(frozen=True)
class Isolation:
    """The way of isolation that was chosen for this machine."""

    namespaces: bool
    #: whether the other namespaces require a user namespace (for all users but root)
    user: bool = False
    #: why there are no namespaces
    reason: str = ""

    def degradation(self) -> str | None:
        """What is weaker than on a machine with namespaces, and how to mend it; None if nothing is."""
        if self.namespaces:
            return None
        return (
            f"pods run without namespaces of their own ({self.reason}): only Python programs see pod names, "
            f"volumes appear only where their path can be made, and pods see each other's processes. "
            f"{_remedy()}"
        )

    def command(self, setup: Setup, files: Files, lock: Path, argv: Sequence[str]) -> list[str]:
        """The command line of the wrapper around `argv`."""
        script = _script(setup, files, lock, self)
        if not self.namespaces:
            return [_SHELL, "-c", script, WRAPPER, *argv]
        flags = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if self.user:
            flags += ["--user", "--map-current-user", "--keep-caps"]
        return ["unshare", *flags, _SHELL, "-c", script, WRAPPER, *argv]

    def inside(self, init: int, working_dir: str, argv: Sequence[str], umask: int = 0o022) -> list[str]:
        """The command line that runs `argv` beside a running container, whose process 1 is `init` outside."""
        enter = [_SHELL, "-c", f'umask {umask:03o} && cd "$0" && exec "$@"', working_dir, *argv]
        if not self.namespaces:
            return enter
        flags = ["--mount", "--uts", "--pid"]
        if self.user:
            flags += ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(init), *flags, *enter]


def detect(environ: dict[str, str] | None = None) -> Isolation:
    """Tries once whether this machine permits namespaces; `MUSTER_ISOLATION` overrides the result."""
    wish = (os.environ if environ is None else environ).get(VARIABLE, "")
    if wish == "none":
        return Isolation(namespaces=False, reason=f"{VARIABLE}=none")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return Isolation(namespaces=False, reason=f"{', '.join(missing)} not found")
    reason = ""
    for user in (False, True) if os.geteuid() == 0 else (True,):
        candidate = Isolation(namespaces=True, user=user)
        reason = _try(candidate)
        if not reason:
            return candidate
    return Isolation(namespaces=False, reason=reason)


def _try(candidate: Isolation) -> str:
    """Runs one container to the end; returns "" if everything worked, else what failed."""
    with tempfile.TemporaryDirectory(prefix="muster-trial-") as directory:
        files, lock = Files(Path(directory)), Path(directory, "lock")
        hosts = Path(directory, "hosts")
        hosts.write_text("127.0.0.1 localhost\n")
        setup = Setup("trial", "/", [Bind(str(hosts), "/etc/hosts")])
        argv = ["sh", "-c", 'test "$(hostname)" = trial && test $$ -lt 100']
        try:
            done = subprocess.run(
                candidate.command(setup, files, lock, argv),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_TRIAL_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode == 0:
            return ""
        told = files.started.read_text() if files.started.exists() else ""
        return (told or done.stderr.decode(errors="replace")).strip() or f"trial ended with {done.returncode}"


def _remedy() -> str:
    try:
        restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").read_text().strip() == "1"
    except OSError:
        restricted = False
    if restricted:
        return "To lift it: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    return "See docs/reference/running-pods.md for how to lift it."


def _script(setup: Setup, files: Files, lock: Path, isolation: Isolation) -> str:
    """The wrapper script. What it writes for muster is private; the command has its own umask.

    Redirections are on `true`, not on `:`: if a redirection on `:` failed (full disk), the shell would end.
    """
    q = shlex.quote
    steps = [f"cd {q(setup.working_dir)}"]
    run = f'"$@" {marks.OUTPUT_FD}<&-'
    head = marks.tagging(str(files.directory))
    if isolation.namespaces:
        steps = [f"hostname {q(setup.hostname)}", *mounts.steps(setup.binds, setup.own), *steps]
        head = f"stage={q(setup.stage)}\n{mounts.FUNCTIONS}"
        if isolation.user:
            run = f"{shutil.which('setpriv')} --ambient-caps=-all --inh-caps=-all -- {run}"
    if setup.open_files:
        steps.append(f"ulimit -S -n {setup.open_files}")
    command_umask = f"umask {setup.umask:03o}"
    keep = f"dd if={q(str(files.output))} of={q(str(files.rest))} bs=64k iflag=nonblock"
    return "\n".join(
        [
            f"umask 077\n{head}",
            f"path=$PATH PATH={_SYSTEM_PATH}",
            f"{{ {' && '.join([command_umask, *steps])}; }} 2>{q(str(files.started))} || exit {SETUP_FAILED}",
            f"PATH=$path; umask 077; true >{q(str(files.ready))}; {command_umask}",
            run,
            "code=$?; umask 077",
            f"echo $code 2>/dev/null >{q(str(files.exit))}",
            f"PATH={_SYSTEM_PATH} flock -ns {q(str(lock))} {keep} 2>/dev/null",
            "exit $code",
        ]
    )

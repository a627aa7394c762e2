"""Starts containers, adopts those that an earlier muster started, runs commands in them, reads their times.

Each function concerns one container of one pod. `Unavailable` means that an object to which the pod refers is
missing, so that a later attempt may succeed. After `CannotStart`, the container counts as started and failed.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.api.core_v1 import Pod
from muster.api.marks import GPU_SHARE
from muster.api.requests import gpus_of_container
from muster.embedded import directories
from muster.embedded.node import claims, execution, processes, shim, variables, volumes
from muster.embedded.node.environment import (
    Unavailable,
    caller_of,
    command_line,
    environment,
    kernel_hostname_of,
)
from muster.embedded.node.execution import Execution
from muster.embedded.node.isolation import Files, Setup
from muster.embedded.node.logs import LogWriter
from muster.embedded.node.machine import Machine
from muster.embedded.node.mounts import Bind
from muster.embedded.node.status import Observed
from muster.translate.marks import gpu_device

_IN_USE: Final = re.compile(r"address already in use|EADDRINUSE|\[?errno 98\b", re.IGNORECASE)
PORT_IN_USE: Final = (
    "a port is in use: the network is shared by all pods of this machine; listen on the pod's own address "
    "(its host name resolves to it) instead of all addresses, or choose another port"
)


#: The longest host name of a kernel.
HOST_NAME: Final = 64
#: The file that a container may write its termination message to, and most bytes of the message.
MESSAGE_PATH: Final = "/dev/termination-log"
MESSAGE_BYTES: Final = 4096
#: Most lines and characters of output that stand in for it.
FALLBACK_LINES: Final = 80
FALLBACK_BYTES: Final = 2048


class CannotStart(Exception):
    """The container cannot be started; the message says why."""


@dataclass(slots=True)
class Start:
    """One start of a container that is running."""

    process: processes.Process
    writer: LogWriter
    started: datetime


def start(
    machine: Machine, pod: Pod, container: Observed, files: Files, sources: Mapping[str, Path]
) -> Start:
    """Starts the container. `sources` are the volumes by name. Raises Unavailable, CannotStart."""
    env = _environment(machine, pod, container)
    argv = command_line(container.spec, env)
    wanted = volumes.binds(container.spec, sources, env)
    working_dir = working_dir_of(pod, container)
    if refusal := cannot_start(argv, env, working_dir, wanted) or variables.too_long(env, argv):
        raise CannotStart(refusal)
    if len(name := kernel_hostname_of(pod)) > HOST_NAME:
        raise CannotStart(
            f"setHostnameAsFQDN: {name} has {len(name)} characters; the kernel takes {HOST_NAME}"
        )
    saved = directories.checkpoints(machine.home, directories.job_of(pod))
    env |= _isolation_env(machine, pod, env) | _device_env(machine, pod, container)
    hosts = Bind(str(machine.hosts(pod)), "/etc/hosts")
    caller = caller_of(pod)
    # below them mount points are really made, which must not mean the whole machine
    own = [path for path in (caller.cwd, caller.home, "/tmp") if path != "/"]
    writer = None
    try:
        if not machine.isolation.namespaces:
            machine.links.hold(pod.metadata.uid, wanted)
        if saved is not None and env.get(directories.CHECKPOINT_DIR) == str(saved):
            saved.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.directory.mkdir(mode=0o700, parents=True)
        setup = Setup(
            kernel_hostname_of(pod),
            working_dir,
            [hosts, *wanted, *_message_file(machine, container, files, argv, env)],
            own,
            str(machine.stage),
            machine.open_files,
            machine.umask,
        )
        writer = writer_of(machine, pod, container, files)
        carried, command = variables.carry(env, argv)
        command = machine.isolation.command(setup, files, machine.lock, command)
        process = processes.start(command, carried, files, namespaces=machine.isolation.namespaces)
    except (OSError, ValueError, Unavailable) as error:  # ValueError: a NUL, for instance from a ConfigMap
        if writer is not None:
            writer.close()
        shutil.rmtree(files.directory, ignore_errors=True)
        raise CannotStart(f"cannot be started: {error}") from None
    return Start(process, writer, machine.clock.now())


def adopt(
    machine: Machine,
    pod: Pod,
    container: Observed,
    files: Files,
    sources: Mapping[str, Path],
    pid: int | None,
) -> Start | None:
    """Returns the start that an earlier muster made; None if its wrapper process `pid` is gone.

    If the wrapper recorded no time, the container counts as running since the pod's own start.
    """
    namespaces = machine.isolation.namespaces
    process = None if pid is None else processes.adopt(pid, files, namespaces=namespaces)
    if process is None:
        return None
    if not namespaces:
        with contextlib.suppress(Unavailable):
            machine.links.hold(pod.metadata.uid, volumes.binds(container.spec, sources, {}))
    started = started_at(files) or pod.status.start_time or machine.clock.now()
    return Start(process, writer_of(machine, pod, container, files), started)


async def execute(
    machine: Machine,
    pod: Pod,
    container: Observed,
    process: processes.Process,
    command: Sequence[str],
    *,
    stdin: bool,
    tty: bool,
) -> Execution:
    """Starts a command beside a container's own process. Raises Unavailable, OSError, ValueError."""
    init = process.init() if process.files.ready.exists() else None
    if init is None:
        raise Unavailable(f"container {container.spec.name} is not running")
    carried, argv = variables.carry(environment_inside(machine, pod, container), command)
    argv = machine.isolation.inside(init, working_dir_of(pod, container), argv, machine.umask)
    return await execution.start(argv, carried, str(process.files.directory / "exec"), stdin=stdin, tty=tty)


def environment_inside(machine: Machine, pod: Pod, container: Observed) -> dict[str, str]:
    """The environment of a command beside the container's own. Raises Unavailable."""
    env = _environment(machine, pod, container)
    return env | _isolation_env(machine, pod, env) | _device_env(machine, pod, container)


def working_dir_of(pod: Pod, container: Observed) -> str:
    return container.spec.working_dir or caller_of(pod).cwd


def writer_of(machine: Machine, pod: Pod, container: Observed, files: Files) -> LogWriter:
    """The writer of this start's output to the log."""
    meta, name = pod.metadata, container.spec.name
    return machine.logs.writer(meta.namespace, meta.name, meta.uid, name, container.restart_count, files)


def says_in_use(machine: Machine, pod: Pod, container: Observed) -> bool:
    """Whether the last lines of the log contain the error that a port is in use."""
    meta, name = pod.metadata, container.spec.name
    end = machine.logs.last_lines(meta.namespace, meta.name, meta.uid, name, container.restart_count)
    return _IN_USE.search(end) is not None


def started_at(files: Files) -> datetime | None:
    """When the wrapper started its command; None if it did not."""
    try:
        return datetime.fromtimestamp(files.started.stat().st_mtime, UTC)
    except OSError:
        return None


def ended_at(machine: Machine, files: Files) -> datetime:
    """When the wrapper recorded the exit of its command, possibly long before muster learns of it."""
    now = machine.clock.now()
    return min(now, processes.recorded_end(files) or now)


def cannot_start(argv: list[str], env: dict[str, str], working_dir: str, binds: list[Bind]) -> str:
    """Returns why a command cannot be started, as far as that is known before the attempt; "" otherwise."""

    def mounted(path: str) -> bool:
        return any(path == bind.target or path.startswith(bind.target + "/") for bind in binds)

    if not argv:
        return (
            "no command: an image's own entry point is not known on the embedded cluster; "
            "write it as the container's command"
        )
    if not mounted(working_dir) and not os.path.isdir(working_dir):
        return f"working directory {working_dir!r} does not exist"
    program = os.path.join(working_dir, argv[0]) if "/" in argv[0] else argv[0]
    if mounted(program) or shutil.which(program, path=env.get("PATH")) is not None:
        return ""
    if "/" not in argv[0]:
        count = len(env.get("PATH", "").split(os.pathsep))
        directories = "1 directory" if count == 1 else f"{count} directories"
        return f"command {argv[0]!r} not found in PATH ({directories})"
    return f"command {argv[0]!r}: {'not executable' if os.path.exists(program) else 'no such file'}"


def _message_file(
    machine: Machine, container: Observed, files: Files, argv: Sequence[str], env: Mapping[str, str]
) -> list[Bind]:
    """The file behind `terminationMessagePath`, for this start alone; without namespaces, none.

    To make a mount point in /dev, all of /dev is mirrored, which is slow. The default path is therefore there
    only if the command or the environment names it.
    """
    path = container.spec.termination_message_path or MESSAGE_PATH
    named = path != MESSAGE_PATH or any(MESSAGE_PATH in text for text in (*argv, *env.values()))
    if not (named and machine.isolation.namespaces):
        return []
    files.message.touch(0o600)
    return [Bind(str(files.message), os.path.normpath(path))]


def termination_message(machine: Machine, pod: Pod, container: Observed, files: Files, code: int) -> str:
    """What the container says about its end: its message file or, if its policy says so, its last output.

    Source: kubernetes pkg/kubelet/kuberuntime (limits of both).
    """
    try:
        with files.message.open("rb") as file:
            text = file.read(MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        text = ""
    if text or not code or container.spec.termination_message_policy != "FallbackToLogsOnError":
        return text
    meta, name = pod.metadata, container.spec.name
    end = machine.logs.last_lines(meta.namespace, meta.name, meta.uid, name, container.restart_count)
    return "".join(end.splitlines(keepends=True)[-FALLBACK_LINES:])[-FALLBACK_BYTES:]


def _environment(machine: Machine, pod: Pod, container: Observed) -> dict[str, str]:
    """The stated variables, and the directory that survives restarts unless one is stated."""
    saved = directories.checkpoints(machine.home, directories.job_of(pod))
    own = {directories.CHECKPOINT_DIR: str(saved)} if saved is not None else {}
    return own | environment(pod, container.spec, caller_of(pod), machine.lookup(pod))


def _isolation_env(machine: Machine, pod: Pod, env: dict[str, str]) -> dict[str, str]:
    if machine.isolation.namespaces:
        return {}
    return shim.variables(env, machine.hosts(pod), kernel_hostname_of(pod))


def _device_env(machine: Machine, pod: Pod, container: Observed) -> dict[str, str]:
    """The variables that tell a container its GPUs, and the devices of its claims."""
    claimed = claims.environment(pod, container.spec, machine.lookup(pod))
    return _gpus(machine, pod, container) | claimed


def _gpus(machine: Machine, pod: Pod, container: Observed) -> dict[str, str]:
    meta, node, devices = pod.metadata, pod.spec.node_name, machine.devices
    if GPU_SHARE.text(meta) is not None and devices.has(node):
        device = gpu_device(meta)  # None: muster did not bind the pod, so it sees no GPU at all
        return {"CUDA_VISIBLE_DEVICES": "" if device is None else devices.share(meta.uid, node, device)}
    wanted = gpus_of_container(container.spec)
    if not wanted:
        return {}
    indices = devices.take(meta.uid, container.spec.name, node, wanted)
    return {"CUDA_VISIBLE_DEVICES": ",".join(indices)} if indices else {}

"""Runs commands of muster as processes that are forked from one that has loaded muster's modules.

To load them is most of what a short command costs. A forked command is like a started one in all but that: it
has its own streams, directory, environment and exit code, and whatever it starts outlives it. `server` gives
the socket of this process's server. The full tier starts its commands as a person does.

Run as a program, this file is the client: `forked.py SOCKET WORD…` stands for `muster WORD…` in a shell.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

#: Bytes of a request: words, directory and environment.
_MOST = 2**20
#: Packages whose modules the commands load when they run.
_ROOMS = (
    "muster.app.commands",
    "muster.app.plan",
    "muster.app.views",
    "muster.app.wiring",
    "muster.cli",
    "muster.embedded",
)


def command(
    at: str, words: Sequence[str], cwd: str, environ: Mapping[str, str], streams: Sequence[int]
) -> int:
    """Runs a command to its end, on these three descriptors; returns its exit code, -N after signal N."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        server.connect(at)
        socket.send_fds(server, [json.dumps([words, cwd, dict(environ)]).encode()], streams)
        return int(server.recv(100) or -signal.SIGKILL)


def server() -> str:
    """The socket of this process's server, which is started when it is first asked for."""
    global _server
    if not _server:
        _server = _started()
    return _server


_server = ""


def program(path: Path) -> None:
    """Writes a program that runs its words as a command of muster."""
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {__file__} {server()} "$@"\n')
    path.chmod(0o755)


def _started() -> str:
    import atexit
    import subprocess
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="muster-forked-")  # goes with this process
    at = f"{folder.name}/socket"
    process = subprocess.Popen(
        [sys.executable, "-c", f"from tests.cli import forked; forked.serve({at!r})"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,  # the server ends when this process does
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    return at


def serve(at: str) -> None:
    """Serves commands until its standard input ends."""
    import gc
    import select

    _load()
    gc.freeze()  # or else each command would copy what the collector touches
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(at)
    listening.listen(16)
    os.write(1, b"ready\n")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # leaves no zombies
    while True:
        ready, _, _ = select.select([0, listening.fileno()], [], [])
        if 0 in ready:
            return
        client, _ = listening.accept()
        if not os.fork():
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(client)
        client.close()


def _load() -> None:
    """Loads what the commands load when they run."""
    import contextlib
    import io
    import pkgutil
    from importlib import import_module

    for room in _ROOMS:
        for module in pkgutil.iter_modules(import_module(room).__path__, f"{room}."):
            import_module(module.name)
    from muster.cli.main import app

    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app(["--version"])


def _answer(client: socket.socket) -> NoReturn:
    """Forks once more: the command is a child of the process that waits for it."""
    message, streams, _, _ = socket.recv_fds(client, _MOST, 3)
    words, cwd, environ = json.loads(message)
    if not (child := os.fork()):
        client.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        # New ones, since these ask what kind of file they are only when they are made.
        for name, opened in (
            ("stdin", os.fdopen(0)),
            ("stdout", os.fdopen(1, "w")),
            ("stderr", os.fdopen(2, "w", buffering=1, errors="backslashreplace")),
        ):
            setattr(sys, name, opened)
            setattr(sys, f"__{name}__", opened)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        _run(words)
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    client.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(words: list[str]) -> NoReturn:
    """Runs a command and ends the process, without the clean-up of an interpreter with many modules."""
    from muster.__main__ import main

    sys.argv = ["muster", *words]
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    code = command(sys.argv[1], sys.argv[2:], os.getcwd(), os.environ, (0, 1, 2))
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)

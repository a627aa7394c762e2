"""Writes standard output from a thread of its own.

An output that accepts nothing (a terminal stopped with Ctrl-S, a pipe without a reader) therefore blocks
nothing else, above all not Ctrl-C.
"""

import asyncio
import errno
import os
import select
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, TextIO

#: size of a terminal that does not report its own: columns and lines
_SIZE: Final = os.terminal_size((80, 24))


class Writer:
    def __init__(self, stream: TextIO | None = None, *, terminal: bool | None = None) -> None:
        """Standard output by default; `terminal` overrides whether the output is a terminal."""
        self._stream = stream or sys.stdout
        known = self._stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
        self.terminal = known if terminal is None else terminal
        self.colours = self.terminal and not os.environ.get("NO_COLOR")
        self._fd = _descriptor(self._stream)
        self._work: SimpleQueue[tuple[str, asyncio.Future[None]]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def size(self) -> os.terminal_size:
        with suppress(OSError):
            if self._fd is not None:
                return os.get_terminal_size(self._fd)
        return _SIZE

    async def write(self, text: str) -> None:
        """Writes the text and returns when it is written. Raises OSError.

        If cancelled, the write continues in the background.
        """
        if not text:
            return
        if self._thread is None:
            self._stream.flush()  # earlier output is written first
            # a daemon, because the interpreter must not wait for a terminal that accepts nothing
            self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
            self._thread.start()
        done = asyncio.get_running_loop().create_future()
        self._work.put((text, done))
        await done

    def _run(self) -> None:
        while True:
            text, done = self._work.get()
            error: OSError | None = None
            try:
                self._put(text)
            except OSError as raised:
                error = raised
            except ValueError:  # the stream is closed: the process, or a test, ends
                error = OSError(errno.EBADF, os.strerror(errno.EBADF))
            with suppress(RuntimeError):  # the loop is closed
                done.get_loop().call_soon_threadsafe(_settle, done, error)

    def _put(self, text: str) -> None:
        if self._fd is None:
            self._stream.write(text)
            self._stream.flush()
            return
        data = memoryview(text.encode(self._stream.encoding or "utf-8", "replace"))
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # the process that opened the output made it non-blocking
                select.select([], [self._fd], [])


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.done():  # cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except OSError:  # not a file
        return None

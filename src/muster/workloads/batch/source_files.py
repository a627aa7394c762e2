"""Reads files that a job file names by `source`: only files in the job file's directory or below.

A user may run a job file of another author, so it must not be able to read other files of the user.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

#: Most bytes of such a file; a ConfigMap holds 1 MiB in all.
MOST: Final = 2**19

#: Returns the content of a file by its path. Raises ValueError, whose message continues "source …".
Read = Callable[[str], bytes]


def beside(job_file: str) -> Read:
    """Returns a reader of files in this job file's directory or below; none if the job is not from a file."""
    if not Path(job_file).is_file():
        return nothing
    top = Path(job_file).resolve().parent

    def read(source: str) -> bytes:
        try:
            file = (top / source).resolve()
        except (OSError, ValueError, RuntimeError):
            raise ValueError("is not a file path") from None
        if not file.is_relative_to(top):
            raise ValueError(f"is outside of the job file's directory ({top}); copy the file there")
        try:
            if not file.is_file():
                raise ValueError(f"{file} is not a file")
            with file.open("rb") as stream:
                content = stream.read(MOST + 1)
        except OSError as error:
            raise ValueError(f"{file} cannot be read: {error.strerror}") from None
        if len(content) > MOST:
            raise ValueError(f"{file} is larger than {MOST // 1024} KiB; put it into a volume")
        return content

    return read


def nothing(source: str) -> bytes:
    """Reads no file: a job that a cluster stores, or that is read from a pipe, has no directory."""
    raise ValueError("cannot be read: no files are beside this job; put the text into content")

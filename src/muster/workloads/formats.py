"""A job file format: a name, what it recognises, and how it is compiled to a JobFile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.api.base import Object
from muster.workloads.jobfile import JobFile, Options
from muster.workloads.source import Document


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    #: whether the first document of a file is of this format
    claims: Callable[[Object], bool]
    #: raises `JobFileError`
    load: Callable[[Sequence[Document], Options], JobFile]

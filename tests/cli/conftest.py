from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.binary import Muster


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    muster = Muster(tmp_path)
    yield muster
    muster.end()

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.binary import Muster
from tests.tiers import FULL


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    muster = Muster(tmp_path, forks=not FULL)
    yield muster
    muster.end()

"""Files that stand in for secret stores."""

import os
from pathlib import Path

import pytest

from muster.workloads.findings import JobFileError
from muster.workloads.secret_files import read

VALUE = "SECRET-VALUE"
WRONG = [
    f"ml/login: [{VALUE}",
    f"ml/login: {VALUE}",
    f"ml/login: {{token: [{VALUE}]}}",
    f"ml/login: {{token: !!python/name:os.system {VALUE}}}",
    f"ml/login: {{token: {VALUE}, token: {VALUE}}}",
]


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_named_without_the_value(tmp_path: Path, text: str) -> None:
    (tmp_path / "default.yaml").write_text(text)
    with pytest.raises(JobFileError, match=r"default.yaml:\d") as caught:
        read(tmp_path)
    assert VALUE not in str(caught.value)


def test_a_path_that_is_not_a_plain_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "default.yaml")
    with pytest.raises(JobFileError, match=r"default.yaml: is not a file"):
        read(tmp_path)

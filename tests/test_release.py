"""What `make release` asks of the repository before it builds anything."""

import pytest

from muster.version import VERSION
from tests.release import section, stated

CHANGELOG = """# Changelog

## Unreleased

## 0.2.0 - 2026-12-01

### Added

- A thing.

## 0.1.0 - 2026-11-22

### Added

- Another.
"""


def test_every_file_names_the_same_version() -> None:
    assert stated() == dict.fromkeys(stated(), VERSION)


def test_the_notes_of_a_release_are_its_section() -> None:
    assert section(CHANGELOG, "0.2.0") == "### Added\n\n- A thing."
    assert section(CHANGELOG, "0.1.0") == "### Added\n\n- Another."


@pytest.mark.parametrize(
    ("text", "version", "why"),
    [
        (CHANGELOG, "0.3.0", r"has no section `## 0\.3\.0 - YYYY-MM-DD`"),
        (CHANGELOG, "0.2", "has no section"),
        (CHANGELOG.replace("- Another.", "").replace("### Added", ""), "0.1.0", "has no section"),
        (
            CHANGELOG.replace("Unreleased\n", "Unreleased\n\n- Late.\n"),
            "0.2.0",
            "Unreleased that is not empty",
        ),
    ],
)
def test_a_changelog_that_is_not_ready(text: str, version: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        section(text, version)

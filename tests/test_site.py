"""The site of the documentation is built strictly, and its old addresses lead to the new ones."""

from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from tests.site import on_post_build

CONFIG = str(Path(__file__).parents[1] / "mkdocs.yml")


def built(directory: Path, text: str) -> Path:
    """The site of one page, built as that of docs/, without its theme and plugins."""
    docs, site = directory / "docs", directory / "site"
    docs.mkdir()
    (docs / "index.md").write_text(text)
    plain: dict[str, Any] = {
        "nav": [{"Start": "index.md"}],
        "plugins": [],
        "hooks": [],
        "theme": {"name": "mkdocs"},
    }
    build(load_config(CONFIG, docs_dir=str(docs), site_dir=str(site), strict=True, **plain))
    return site


@pytest.mark.parametrize(
    "link", ["gone.md", "#gone", "index.md#gone", "/absolute", "folder/", "../outside.md"]
)
def test_a_link_that_leads_nowhere_fails(link: str, tmp_path: Path) -> None:
    with pytest.raises(Abort):
        built(tmp_path, f"# Here\n\n[there]({link})\n")


def test_a_link_to_a_heading_is_kept(tmp_path: Path) -> None:
    assert (
        'href="#here-it-is"'
        in (built(tmp_path, "# Here it is\n\n[there](#here-it-is)\n") / "index.html").read_text()
    )


def test_an_old_address_leads_to_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "concepts").mkdir()
    (tmp_path / "concepts/queues.html").touch()
    config = load_config(CONFIG, site_dir=str(tmp_path))
    config.extra["moved"] = {"queues": "concepts/queues"}
    on_post_build(config)
    assert 'url=concepts/queues.html"' in (tmp_path / "queues.html").read_text()
    config.extra["moved"] = {"gangs": "concepts/gangs"}
    with pytest.raises(FileNotFoundError, match=r"gangs: docs/concepts/gangs.md is no page"):
        on_post_build(config)
